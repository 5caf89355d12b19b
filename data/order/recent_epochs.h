// A cache of values per epoch, for the last few epochs. Training moves forward, so a step and its
// prefetched steps are in at most a few epochs, unless the data set is tiny.
#ifndef DPIPE_DATA_ORDER_RECENT_EPOCHS_H_
#define DPIPE_DATA_ORDER_RECENT_EPOCHS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace dpipe {

// Thread-safe. Two threads that request the same new epoch at the same time may both compute it.
template <typename Value>
class RecentEpochs {
 public:
  // Returns the epoch's value: the cached one, or the result of `make()`.
  template <typename Make>
  std::shared_ptr<const Value> Get(int64_t epoch, const Make& make) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = values_.find(epoch);
      if (found != values_.end()) return found->second;
    }
    const auto value = std::make_shared<const Value>(make());
    std::lock_guard<std::mutex> lock(mutex_);
    // The smallest epoch is evicted first, because training moves forward.
    if (values_.size() >= kMaxEpochs) values_.erase(values_.begin());
    values_.emplace(epoch, value);
    return value;
  }

 private:
  static constexpr size_t kMaxEpochs = 4;

  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<const Value>> values_;  // by epoch
};

}  // namespace dpipe

#endif  // DPIPE_DATA_ORDER_RECENT_EPOCHS_H_
