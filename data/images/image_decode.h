// Decodes JPEG, PNG and WebP files, which may be corrupt, truncated or malicious.
#ifndef DPIPE_DATA_IMAGES_IMAGE_DECODE_H_
#define DPIPE_DATA_IMAGES_IMAGE_DECODE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "data/images/image.h"

namespace dpipe {

// Limits on an image, checked against its header before pixels are allocated.
struct DecodeLimits {
  int max_side = 16384;
  int64_t max_pixels = 50'000'000;  // 150 MB as RGB; a WebP with transparency takes 200 MB more
  // The limit for a JPEG as stored. A JPEG that exceeds the limits above but not this one is
  // decoded at 1/2, 1/4 or 1/8 of its sides, the largest that fits. Files with several scans
  // (progressive ones) are not, because libjpeg would have to hold every pixel.
  int64_t max_stored_pixels = 1'000'000'000;
  int64_t max_file_bytes = 256'000'000;
};

// Decodes `bytes`. The first bytes decide the format, not the name.
// - Grey and CMYK become RGB, and 16-bit samples become 8-bit.
// - Transparent pixels are composited on white, so that the colours that editors leave under them
//   are not trained on.
// - EXIF orientation is applied.
// - Colour profiles (ICC, PNG's gamma) are ignored. Samples are taken as sRGB, as nearly all images
//   on the web intend.
// - The first frame of an animated WebP is decoded, on white if it does not cover everything.
//
// Errors start with `name`. Returns InvalidArgument if the format is another one, which is named (a
// Git LFS pointer, an AVIF image), if the file is corrupt or truncated, or if it exceeds a limit.
absl::StatusOr<Image> DecodeImage(absl::string_view bytes, const std::string& name,
                                  const DecodeLimits& limits = {});

// Returns the size of the image that DecodeImage would return, from the headers alone. `bytes` may
// be only the start of the file, if it contains the headers.
absl::StatusOr<ImageSize> DecodeImageSize(absl::string_view bytes, const std::string& name,
                                          const DecodeLimits& limits = {});

// The same for the `size` bytes from `offset` in a file, called `name` in errors. Reads the first 8
// KiB, then twice as much, and so on until it has the headers. A WebP with EXIF data, which is at
// its end, is read whole.
absl::StatusOr<ImageSize> ReadImageSize(const std::string& path, int64_t offset, int64_t size,
                                        const std::string& name, const DecodeLimits& limits = {});

// Reads and decodes a file. Returns NotFound if it is missing and InvalidArgument if it is not a
// regular file.
absl::StatusOr<Image> ReadImage(const std::string& path, const DecodeLimits& limits = {});

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGES_IMAGE_DECODE_H_
