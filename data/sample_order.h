// In which order training sees a data set's samples: a function of (seed, epoch, size) alone, the
// same for any number of devices and for whoever asks.
#ifndef DPIPE_DATA_SAMPLE_ORDER_H_
#define DPIPE_DATA_SAMPLE_ORDER_H_

#include <cstdint>
#include <vector>

#include "data/recent_epochs.h"

namespace dpipe {

// A permutation of [0, size): Fisher-Yates with the numbers of RandomStream(seed, epoch, stream,
// kShuffle).
std::vector<int32_t> EpochOrder(uint64_t seed, int64_t epoch, int32_t size, uint32_t stream = 0);

// The seed of an order that begins at `first_step`: `seed` itself at 0, else the first 64 bits of
// RandomStream(seed, first_step, 2^32 - 1, kShuffle), so that every order that a run begins is a
// new one.
uint64_t OrderSeed(uint64_t seed, int64_t first_step);

// The endless sequence of epochs one after another. Thread-safe.
class SampleOrder {
 public:
  // size >= 1. Orders of other streams are other ones.
  SampleOrder(uint64_t seed, int32_t size, uint32_t stream = 0);

  // The sample at `position` >= 0, which is place position % size of epoch position / size.
  int32_t At(int64_t position) const;

  int32_t size() const { return size_; }

 private:
  const uint64_t seed_;
  const int32_t size_;
  const uint32_t stream_;
  mutable RecentEpochs<std::vector<int32_t>> recent_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_SAMPLE_ORDER_H_
