#include "data/images/image.h"

#include "core/base/check.h"

namespace dpipe {

Image::Image(int width, int height) : width(width), height(height) {
  DPIPE_CHECK_GT(width, 0);
  DPIPE_CHECK_GT(height, 0);
  pixels.resize(static_cast<size_t>(width) * height * 3);
}

}  // namespace dpipe
