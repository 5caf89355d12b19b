// JPEG, PNG and WebP files to images. The files may be anything: corrupt, cut off, or made to do
// harm.
#ifndef DPIPE_DATA_IMAGE_DECODE_H_
#define DPIPE_DATA_IMAGE_DECODE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "data/image.h"

namespace dpipe {

// What a file may ask for. Checked against its header, before anything of that size is allocated.
struct DecodeLimits {
  int max_side = 16384;
  int64_t max_pixels = 50'000'000;  // 150 MB as RGB; a WebP with transparency takes 200 MB more
  // Of a JPEG as it is stored. One that is over the limits above, but not over this, is decoded at
  // 1/2, 1/4 or 1/8 of its sides, whichever is the largest that they allow; except where it has
  // several scans (a progressive one), of which libjpeg would have to hold every pixel.
  int64_t max_stored_pixels = 1'000'000'000;
  int64_t max_file_bytes = 256'000'000;
};

// Decodes `bytes`; the first bytes decide the format, not the name. Grey becomes RGB, 16-bit
// samples become 8-bit, CMYK becomes RGB. Transparent pixels are composited on white, so that the
// colours that editors leave under them are not trained. EXIF orientation is applied. Colour
// profiles (ICC, PNG's gamma) are not: numbers are taken as sRGB, which is what nearly all images
// of the web mean. Of an animated WebP it is the first frame, on white where that leaves something
// uncovered.
//
// Errors start with `name`. InvalidArgument: another format, which is named (a Git LFS pointer, an
// AVIF image), or corrupt, or cut off, or larger than a limit.
absl::StatusOr<Image> DecodeImage(absl::string_view bytes, const std::string& name,
                                  const DecodeLimits& limits = {});

// What DecodeImage's image would measure, from the headers alone. `bytes` may be the file's first
// part, as long as it has the headers.
absl::StatusOr<ImageSize> DecodeImageSize(absl::string_view bytes, const std::string& name,
                                          const DecodeLimits& limits = {});

// The same of the `size` bytes from `offset` of a file, called `name` in errors. Reads the first
// 8 KiB only, where they have the headers, or else twice as much and so on; a WebP with EXIF data,
// which is at its end, is read whole.
absl::StatusOr<ImageSize> ReadImageSize(const std::string& path, int64_t offset, int64_t size,
                                        const std::string& name, const DecodeLimits& limits = {});

// Reads and decodes a file; NotFound if it is not there, InvalidArgument if it is not a regular
// one.
absl::StatusOr<Image> ReadImage(const std::string& path, const DecodeLimits& limits = {});

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGE_DECODE_H_
