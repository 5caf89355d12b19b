// An 8-bit RGB image in memory.
#ifndef DPIPE_DATA_IMAGES_IMAGE_H_
#define DPIPE_DATA_IMAGES_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dpipe {

// Rows from the top, pixels from the left, three bytes (red, green, blue) per pixel, no padding:
// byte c of pixel (x, y) is pixels[(y * width + x) * 3 + c].
struct Image {
  Image() = default;
  // Makes a black image. Both sides must be at least 1.
  Image(int width, int height);

  uint8_t* At(int x, int y) { return &pixels[(static_cast<size_t>(y) * width + x) * 3]; }
  const uint8_t* At(int x, int y) const {
    return &pixels[(static_cast<size_t>(y) * width + x) * 3];
  }

  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;
  // True if the decoded file has transparent pixels, which are composited on white. Set by
  // decoding; other functions do not preserve it.
  bool had_transparency = false;
};

// Width and height in pixels.
struct ImageSize {
  int width = 0;
  int height = 0;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGES_IMAGE_H_
