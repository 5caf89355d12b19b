// An 8-bit RGB image in memory.
#ifndef DPIPE_DATA_IMAGES_IMAGE_H_
#define DPIPE_DATA_IMAGES_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
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

// A cache of decoded images with a maximum size in bytes and LRU eviction.
//
// Thread-safe.
class ImageCache {
 public:
  explicit ImageCache(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Returns the image, or null if it is not cached.
  std::shared_ptr<const Image> Find(int64_t key);

  // Adds the image, unless it is larger than the whole cache or already there.
  void Insert(int64_t key, std::shared_ptr<const Image> image);

  int64_t size_bytes() const;

 private:
  using Entry = std::pair<int64_t, std::shared_ptr<const Image>>;

  const int64_t max_bytes_;
  mutable std::mutex mutex_;
  int64_t size_bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<int64_t, std::list<Entry>::iterator> places_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGES_IMAGE_H_
