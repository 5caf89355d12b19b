// The decoders behind DecodeImage, one a format. Not for use by anything else.
#ifndef DPIPE_DATA_IMAGE_FORMATS_H_
#define DPIPE_DATA_IMAGE_FORMATS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "data/image.h"
#include "data/image_decode.h"

namespace dpipe::internal {

struct ImageSource {
  absl::string_view bytes;
  const std::string& name;
  const DecodeLimits& limits;
};

bool FitsLimits(const DecodeLimits& limits, int64_t width, int64_t height);

// That size if the limits allow it.
absl::StatusOr<ImageSize> CheckedSize(const ImageSource& source, int64_t width, int64_t height);

// An image of that size if the limits allow it: every decoder's only allocation of pixels.
absl::StatusOr<Image> AllocateImage(const ImageSource& source, int64_t width, int64_t height);

// One sample of a pixel with opacity `alpha`, over white; rounded to nearest.
inline uint8_t OverWhite(uint8_t sample, uint8_t alpha) {
  return static_cast<uint8_t>(255 - ((255 - sample) * alpha + 127) / 255);
}

absl::Status CorruptImage(const ImageSource& source, absl::string_view format,
                          absl::string_view reason);

// Decodes as it is stored, over white; *orientation is what EXIF says, if anything.
absl::StatusOr<Image> DecodeJpeg(const ImageSource& source, int* orientation);
absl::StatusOr<Image> DecodePng(const ImageSource& source, int* orientation);
absl::StatusOr<Image> DecodeWebp(const ImageSource& source, int* orientation);

// The same from the headers alone.
absl::StatusOr<ImageSize> JpegSize(const ImageSource& source, int* orientation);
absl::StatusOr<ImageSize> PngSize(const ImageSource& source, int* orientation);
absl::StatusOr<ImageSize> WebpSize(const ImageSource& source, int* orientation);

// Whether the headers of these first bytes are a WebP's and say that it has EXIF data.
bool WebpHasExif(absl::string_view bytes);

}  // namespace dpipe::internal

#endif  // DPIPE_DATA_IMAGE_FORMATS_H_
