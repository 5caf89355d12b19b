#include "data/order/sample_order.h"

#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/philox.h"

namespace dpipe {

std::vector<int32_t> EpochOrder(uint64_t seed, int64_t epoch, int32_t size, uint32_t stream) {
  std::vector<int32_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  RandomStream random(seed, static_cast<uint64_t>(epoch), stream, RandomPurpose::kShuffle);
  for (int32_t i = size - 1; i > 0; --i) std::swap(order[i], order[random.NextBelow(i + 1)]);
  return order;
}

uint64_t OrderSeed(uint64_t seed, int64_t first_step) {
  if (first_step == 0) return seed;
  constexpr uint32_t kNoStream = 0xffffffff;  // no EpochOrder draws from it
  RandomStream random(seed, static_cast<uint64_t>(first_step), kNoStream, RandomPurpose::kShuffle);
  const uint64_t high = random.NextUint32();
  return high << 32 | random.NextUint32();
}

SampleOrder::SampleOrder(uint64_t seed, int32_t size, uint32_t stream)
    : seed_(seed), size_(size), stream_(stream) {
  DPIPE_CHECK_GT(size, 0);
}

int32_t SampleOrder::At(int64_t position) const {
  DPIPE_CHECK_GE(position, 0);
  const int64_t epoch = position / size_;
  const auto order = recent_.Get(epoch, [&] { return EpochOrder(seed_, epoch, size_, stream_); });
  return (*order)[position % size_];
}

}  // namespace dpipe
