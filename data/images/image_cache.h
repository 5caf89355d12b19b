// A cache of decoded images with a maximum size in bytes and LRU eviction.
#ifndef DPIPE_DATA_IMAGES_IMAGE_CACHE_H_
#define DPIPE_DATA_IMAGES_IMAGE_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "data/images/image.h"

namespace dpipe {

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

#endif  // DPIPE_DATA_IMAGES_IMAGE_CACHE_H_
