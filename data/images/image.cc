#include "data/images/image.h"

#include "core/base/check.h"

namespace dpipe {

Image::Image(int width, int height) : width(width), height(height) {
  DPIPE_CHECK_GT(width, 0);
  DPIPE_CHECK_GT(height, 0);
  pixels.resize(static_cast<size_t>(width) * height * 3);
}

namespace {

int64_t BytesOf(const Image& image) { return static_cast<int64_t>(image.pixels.size()); }

}  // namespace

std::shared_ptr<const Image> ImageCache::Find(int64_t key) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->second;
}

void ImageCache::Insert(int64_t key, std::shared_ptr<const Image> image) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (BytesOf(*image) > max_bytes_ || places_.count(key) > 0) return;
  size_bytes_ += BytesOf(*image);
  entries_.emplace_front(key, std::move(image));
  places_[key] = entries_.begin();
  while (size_bytes_ > max_bytes_) {
    size_bytes_ -= BytesOf(*entries_.back().second);
    places_.erase(entries_.back().first);
    entries_.pop_back();
  }
}

int64_t ImageCache::size_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return size_bytes_;
}

}  // namespace dpipe
