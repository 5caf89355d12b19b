// Images to PNG and JPEG files' bytes.
#ifndef DPIPE_DATA_IMAGE_ENCODE_H_
#define DPIPE_DATA_IMAGE_ENCODE_H_

#include <string>

#include "core/base/status.h"
#include "data/image.h"

namespace dpipe {

// Lossless. Internal if libpng reports an error.
absl::StatusOr<std::string> EncodePng(const Image& image);

// Baseline JPEG with colour at full resolution (4:4:4), so that edges keep their colour.
// `quality` in [1, 100]. Internal if libjpeg reports an error.
absl::StatusOr<std::string> EncodeJpeg(const Image& image, int quality = 95);

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGE_ENCODE_H_
