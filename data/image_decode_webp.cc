// WebP by libwebp.
#include <webp/decode.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "data/image_formats.h"

namespace dpipe::internal {

absl::StatusOr<Image> DecodeWebp(const ImageSource& source) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(source.bytes.data());
  WebPBitstreamFeatures features;
  const VP8StatusCode code = WebPGetFeatures(bytes, source.bytes.size(), &features);
  if (code != VP8_STATUS_OK) {
    return CorruptImage(source, "WebP", absl::StrCat("libwebp's status ", static_cast<int>(code)));
  }
  if (features.has_animation) {
    return absl::UnimplementedError(absl::StrCat(source.name, ": an animated WebP"));
  }
  DPIPE_ASSIGN_OR_RETURN(Image image, AllocateImage(source, features.width, features.height));
  if (WebPDecodeRGBInto(bytes, source.bytes.size(), image.pixels.data(), image.pixels.size(),
                        image.width * 3) == nullptr) {
    return CorruptImage(source, "WebP", "libwebp cannot decode it");
  }
  return image;
}

}  // namespace dpipe::internal
