// What was computed for the epochs that were asked for last: training goes forward, and a step and
// those read ahead of it lie in at most a few epochs, unless the data set is tiny.
#ifndef DPIPE_DATA_RECENT_EPOCHS_H_
#define DPIPE_DATA_RECENT_EPOCHS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace dpipe {

// Thread-safe. Two threads that ask for the same new epoch at the same time may both compute it.
template <typename Value>
class RecentEpochs {
 public:
  // The epoch's value: what `make()` returned for it, now or lately.
  template <typename Make>
  std::shared_ptr<const Value> Get(int64_t epoch, const Make& make) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = values_.find(epoch);
      if (found != values_.end()) return found->second;
    }
    const auto value = std::make_shared<const Value>(make());
    std::lock_guard<std::mutex> lock(mutex_);
    // The smallest epoch goes first: training moves forward.
    if (values_.size() >= kMostKept) values_.erase(values_.begin());
    values_.emplace(epoch, value);
    return value;
  }

 private:
  static constexpr size_t kMostKept = 4;

  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<const Value>> values_;  // by epoch
};

}  // namespace dpipe

#endif  // DPIPE_DATA_RECENT_EPOCHS_H_
