// The order in which training sees a data set's samples. Depends on (seed, epoch, size) alone, so
// it is the same for any number of devices.
#ifndef DPIPE_DATA_ORDER_SAMPLE_ORDER_H_
#define DPIPE_DATA_ORDER_SAMPLE_ORDER_H_

#include <cstdint>
#include <vector>

#include "data/order/recent_epochs.h"

namespace dpipe {

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
