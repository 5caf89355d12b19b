#include "data/sample_order.h"

#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/philox.h"

namespace dpipe {
namespace {

// A step and those read ahead of it lie in at most a few epochs, unless the data set is tiny.
constexpr size_t kRecentEpochs = 4;

}  // namespace

std::vector<int32_t> EpochOrder(uint64_t seed, int64_t epoch, int32_t size, uint32_t stream) {
  std::vector<int32_t> order(size);
  std::iota(order.begin(), order.end(), 0);
  RandomStream random(seed, static_cast<uint64_t>(epoch), stream, RandomPurpose::kShuffle);
  for (int32_t i = size - 1; i > 0; --i) std::swap(order[i], order[random.NextBelow(i + 1)]);
  return order;
}

SampleOrder::SampleOrder(uint64_t seed, int32_t size, uint32_t stream)
    : seed_(seed), size_(size), stream_(stream) {
  DPIPE_CHECK_GT(size, 0);
}

int32_t SampleOrder::At(int64_t position) const {
  DPIPE_CHECK_GE(position, 0);
  return (*OrderOf(position / size_))[position % size_];
}

SampleOrder::Order SampleOrder::OrderOf(int64_t epoch) const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = recent_.find(epoch);
    if (found != recent_.end()) return found->second;
  }
  const auto order =
      std::make_shared<const std::vector<int32_t>>(EpochOrder(seed_, epoch, size_, stream_));
  std::lock_guard<std::mutex> lock(mutex_);
  // The smallest epoch goes first: training moves forward.
  if (recent_.size() >= kRecentEpochs) recent_.erase(recent_.begin());
  recent_.emplace(epoch, order);
  return order;
}

}  // namespace dpipe
