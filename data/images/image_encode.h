// Encodes images as PNG and JPEG.
#ifndef DPIPE_DATA_IMAGES_IMAGE_ENCODE_H_
#define DPIPE_DATA_IMAGES_IMAGE_ENCODE_H_

#include <string>

#include "core/base/status.h"
#include "data/images/image.h"

namespace dpipe {

// Lossless. Returns Internal if libpng reports an error.
absl::StatusOr<std::string> EncodePng(const Image& image);

// Writes a baseline JPEG with colour at full resolution (4:4:4), so that edges keep their colour.
// `quality` is in [1, 100]. Returns Internal if libjpeg reports an error.
absl::StatusOr<std::string> EncodeJpeg(const Image& image, int quality = 95);

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGES_IMAGE_ENCODE_H_
