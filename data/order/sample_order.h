// The order in which training sees a data set's samples. Depends on (seed, epoch, size) alone, so
// it is the same for any number of devices.
#ifndef DPIPE_DATA_ORDER_SAMPLE_ORDER_H_
#define DPIPE_DATA_ORDER_SAMPLE_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace dpipe {

// A cache of values per epoch, for the last few epochs. Training moves forward, so a step and its
// prefetched steps are in at most a few epochs, unless the data set is tiny.
//
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

// Returns a permutation of [0, size): Fisher-Yates with the numbers of RandomStream(seed, epoch,
// stream, kShuffle).
std::vector<int32_t> EpochOrder(uint64_t seed, int64_t epoch, int32_t size, uint32_t stream = 0);

// Returns the seed of an order that begins at `first_step`. At 0 it is `seed` itself. Otherwise it
// is the first 64 bits of RandomStream(seed, first_step, 2^32 - 1, kShuffle), so that every order
// of a run is different.
uint64_t OrderSeed(uint64_t seed, int64_t first_step);

// The endless sequence of one epoch after another. Thread-safe.
class SampleOrder {
 public:
  // size >= 1. Different streams have different orders.
  SampleOrder(uint64_t seed, int32_t size, uint32_t stream = 0);

  // Returns the sample at `position` >= 0, which is place position % size of epoch position / size.
  int32_t At(int64_t position) const;

  int32_t size() const { return size_; }

 private:
  const uint64_t seed_;
  const int32_t size_;
  const uint32_t stream_;
  mutable RecentEpochs<std::vector<int32_t>> recent_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_ORDER_SAMPLE_ORDER_H_
