// Decodes WebP with libwebp.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/images/image_formats.h"

namespace dpipe::internal {

namespace {

constexpr char kCannotDecode[] = "libwebp cannot decode it";

// Returns the data of the RIFF chunk EXIF, which comes after the pixels. Returns "" if there is
// none, or if the header does not announce it, in which case libwebp's readers ignore it too.
absl::string_view ExifChunk(absl::string_view bytes) {
  if (!WebpHasExif(bytes)) return {};
  constexpr size_t kHeaderBytes = 8;  // a name and a length, little endian
  size_t at = 12;                     // after RIFF, length, WEBP
  while (bytes.size() > at && bytes.size() - at >= kHeaderBytes) {
    uint64_t length = 0;
    for (int i = 7; i >= 4; --i) length = length << 8 | static_cast<uint8_t>(bytes[at + i]);
    const absl::string_view rest = bytes.substr(at + kHeaderBytes);
    if (bytes.substr(at, 4) == "EXIF") return rest.substr(0, length);
    at += kHeaderBytes + length + length % 2;
  }
  return {};
}

// Reads the features of the whole source, or of a frame.
absl::StatusOr<WebPBitstreamFeatures> ReadFeatures(const ImageSource& source,
                                                   absl::string_view bytes) {
  WebPBitstreamFeatures features;
  const VP8StatusCode code =
      WebPGetFeatures(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), &features);
  if (code != VP8_STATUS_OK) {
    return CorruptImage(source, "WebP", absl::StrCat("libwebp status ", static_cast<int>(code)));
  }
  return features;
}

// Decodes a still picture into `image`, with its upper left corner at (left, top).
absl::Status DecodeOpaque(const ImageSource& source, absl::string_view bytes, int left, int top,
                          Image* image) {
  uint8_t* const out = image->At(left, top);
  const size_t room = image->pixels.size() - (out - image->pixels.data());
  if (WebPDecodeRGBInto(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), out, room,
                        image->width * 3) == nullptr) {
    return CorruptImage(source, "WebP", kCannotDecode);
  }
  return absl::OkStatus();
}

// The same for a picture with an alpha channel, on white.
absl::Status DecodeTransparent(const ImageSource& source, absl::string_view bytes, int width,
                               int height, int left, int top, Image* image) {
  std::vector<uint8_t> pixels(size_t{4} * width * height);
  if (WebPDecodeRGBAInto(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(),
                         pixels.data(), pixels.size(), width * 4) == nullptr) {
    return CorruptImage(source, "WebP", kCannotDecode);
  }
  const uint8_t* pixel = pixels.data();
  for (int y = top; y < top + height; ++y) {
    uint8_t* out = image->At(left, y);
    for (int x = 0; x < width; ++x, pixel += 4) {
      image->had_transparency |= pixel[3] != 255;
      for (int c = 0; c < 3; ++c) *out++ = OverWhite(pixel[c], pixel[3]);
    }
  }
  return absl::OkStatus();
}

// `features` are those of `bytes`, and the picture lies within the image.
absl::Status DecodeStill(const ImageSource& source, absl::string_view bytes,
                         const WebPBitstreamFeatures& features, int left, int top, Image* image) {
  return features.has_alpha
             ? DecodeTransparent(source, bytes, features.width, features.height, left, top, image)
             : DecodeOpaque(source, bytes, left, top, image);
}

// Decodes the first frame of an animation at its position in the picture.
absl::Status DecodeFirstFrame(const ImageSource& source, Image* image) {
  const WebPData data = {reinterpret_cast<const uint8_t*>(source.bytes.data()),
                         source.bytes.size()};
  const std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> demuxer(WebPDemux(&data),
                                                                     WebPDemuxDelete);
  WebPIterator frame;
  if (demuxer == nullptr || WebPDemuxGetFrame(demuxer.get(), 1, &frame) == 0) {
    return CorruptImage(source, "WebP", "incomplete animation");
  }
  // The demuxer owns the iterator's memory.
  const absl::string_view bytes(reinterpret_cast<const char*>(frame.fragment.bytes),
                                frame.fragment.size);
  if (frame.x_offset < 0 || frame.y_offset < 0 || frame.width > image->width - frame.x_offset ||
      frame.height > image->height - frame.y_offset) {
    return CorruptImage(source, "WebP", "the first frame is not inside the picture");
  }
  DPIPE_ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, ReadFeatures(source, bytes));
  if (features.width != frame.width || features.height != frame.height) {
    return CorruptImage(source, "WebP", "the first frame differs in size from its header");
  }
  const bool covers_all = frame.width == image->width && frame.height == image->height;
  image->had_transparency = !covers_all;
  if (!covers_all) std::fill(image->pixels.begin(), image->pixels.end(), uint8_t{255});
  return DecodeStill(source, bytes, features, frame.x_offset, frame.y_offset, image);
}

}  // namespace

bool WebpHasExif(absl::string_view bytes) {
  // RIFF, length, WEBP; VP8X, length, flags [RFC 9649, section 2.7].
  constexpr size_t kFlagsAt = 20;
  constexpr uint8_t kExifFlag = 0x08;
  return bytes.size() > kFlagsAt && bytes.substr(0, 4) == "RIFF" &&
         bytes.substr(8, 8) == "WEBPVP8X" &&
         (static_cast<uint8_t>(bytes[kFlagsAt]) & kExifFlag) != 0;
}

absl::StatusOr<ImageSize> WebpSize(const ImageSource& source, int* orientation) {
  DPIPE_ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, ReadFeatures(source, source.bytes));
  *orientation = ExifOrientation(ExifChunk(source.bytes));
  return CheckedSize(source, features.width, features.height);
}

absl::StatusOr<Image> DecodeWebp(const ImageSource& source, int* orientation) {
  DPIPE_ASSIGN_OR_RETURN(const WebPBitstreamFeatures features, ReadFeatures(source, source.bytes));
  *orientation = ExifOrientation(ExifChunk(source.bytes));
  DPIPE_ASSIGN_OR_RETURN(Image image, AllocateImage(source, features.width, features.height));
  DPIPE_RETURN_IF_ERROR(features.has_animation
                            ? DecodeFirstFrame(source, &image)
                            : DecodeStill(source, source.bytes, features, 0, 0, &image));
  return image;
}

}  // namespace dpipe::internal
