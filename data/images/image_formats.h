// The decoders behind DecodeImage, one per format. Not for any other use.
#ifndef DPIPE_DATA_IMAGES_IMAGE_FORMATS_H_
#define DPIPE_DATA_IMAGES_IMAGE_FORMATS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "data/images/image.h"
#include "data/images/image_decode.h"

namespace dpipe {

// Image orientation from EXIF data.

// Returns the Orientation tag (0x0112) of the first directory of a TIFF structure, the format of
// EXIF data [CIPA DC-008, 4.6.4]. Skips a leading "Exif\0\0". Returns 1 (upright) if the tag is
// missing or the data is damaged, because that is no reason to lose an image.
int ExifOrientation(absl::string_view exif);

// Returns the upright image. Of the orientations in [1, 8], 2, 4, 5 and 7 mirror the image, and 5
// to 8 exchange width and height. Same results as PIL's exif_transpose.
Image ApplyOrientation(Image image, int orientation);

}  // namespace dpipe

namespace dpipe::internal {

struct ImageSource {
  absl::string_view bytes;
  const std::string& name;
  const DecodeLimits& limits;
};

bool FitsLimits(const DecodeLimits& limits, int64_t width, int64_t height);

// Returns the size if the limits allow it.
absl::StatusOr<ImageSize> CheckedSize(const ImageSource& source, int64_t width, int64_t height);

// Returns an image of this size if the limits allow it. Every decoder's only allocation of pixels.
absl::StatusOr<Image> AllocateImage(const ImageSource& source, int64_t width, int64_t height);

// Composites one sample of a pixel with opacity `alpha` on white, rounded to nearest.
inline uint8_t OverWhite(uint8_t sample, uint8_t alpha) {
  return static_cast<uint8_t>(255 - ((255 - sample) * alpha + 127) / 255);
}

absl::Status CorruptImage(const ImageSource& source, absl::string_view format,
                          absl::string_view reason);

// Decode the image as stored, on white. Sets *orientation to the EXIF orientation, if there is one.
absl::StatusOr<Image> DecodeJpeg(const ImageSource& source, int* orientation);
absl::StatusOr<Image> DecodePng(const ImageSource& source, int* orientation);
absl::StatusOr<Image> DecodeWebp(const ImageSource& source, int* orientation);

// The same from the headers alone.
absl::StatusOr<ImageSize> JpegSize(const ImageSource& source, int* orientation);
absl::StatusOr<ImageSize> PngSize(const ImageSource& source, int* orientation);
absl::StatusOr<ImageSize> WebpSize(const ImageSource& source, int* orientation);

// True if these first bytes are the headers of a WebP that has EXIF data.
bool WebpHasExif(absl::string_view bytes);

}  // namespace dpipe::internal

#endif  // DPIPE_DATA_IMAGES_IMAGE_FORMATS_H_
