#include "core/comm/shared_collective.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/tensor/add_up.h"

namespace dpipe {
namespace {

// 64 KiB per tensor: about 10 us of work. Short enough not to delay a message that arrives in the
// meantime, and long enough for the cost of taking a chunk to be negligible.
constexpr int64_t kChunkElements = 16 * 1024;

// 8 KiB per tensor: sums stay in the core's L1 cache until they have been copied to all members.
constexpr int64_t kBlockElements = 2 * 1024;

}  // namespace

SharedCollective::SharedCollective(Kind kind, int num_members)
    : kind_(kind), contributions_(num_members) {}

bool SharedCollective::Join(int number, Contribution contribution, Nanos now_ns) {
  contributions_[number] = std::move(contribution);
  complete_ns_ = std::max(complete_ns_, now_ns);
  if (++num_joined_ < static_cast<int>(contributions_.size())) return false;
  CheckSizes();
  Divide();
  if (chunks_.empty()) End();
  complete_.store(true, std::memory_order_release);
  return true;
}

void SharedCollective::CheckSizes() const {
  const std::vector<Tensor>& full = contributions_[0].full;
  for (size_t m = 0; m < contributions_.size(); ++m) {
    DPIPE_CHECK_EQ(contributions_[m].full.size(), full.size()) << "tensors of member " << m;
    for (size_t i = 0; i < full.size(); ++i) {
      const int64_t n = full[i].num_elements();
      DPIPE_CHECK_EQ(contributions_[m].full[i].num_elements(), n)
          << "tensor " << i << " of member " << m;
      if (kind_ == Kind::kAllReduceSum) continue;
      DPIPE_CHECK_EQ(contributions_[m].shards[i].num_elements(), ShardOf(m).Size(n))
          << "shard " << i << " of member " << m;
    }
  }
}

void SharedCollective::Divide() {
  const int members = static_cast<int>(contributions_.size());
  const bool sums = kind_ == Kind::kAllReduceSum;
  if (sums && members == 1) return;
  for (int m = 0; m < (sums ? 1 : members); ++m) {
    for (size_t i = 0; i < contributions_[0].full.size(); ++i) {
      const int64_t n = contributions_[0].full[i].num_elements();
      const bool of_shard = kind_ == Kind::kReduceScatterSum;
      const int64_t end = of_shard ? ShardOf(m).End(n) : n;
      for (int64_t k = of_shard ? ShardOf(m).Begin(n) : 0; k < end; k += kChunkElements) {
        chunks_.push_back({m, static_cast<int>(i), k, std::min(end, k + kChunkElements)});
      }
    }
  }
}

bool SharedCollective::HasWork() const {
  return complete() &&
         num_taken_.load(std::memory_order_relaxed) < static_cast<int>(chunks_.size());
}

bool SharedCollective::RunNextChunk() {
  if (!HasWork()) return false;
  const int taken = num_taken_.fetch_add(1, std::memory_order_relaxed);
  if (taken >= static_cast<int>(chunks_.size())) return false;
  Do(chunks_[taken]);
  if (num_done_.fetch_add(1, std::memory_order_acq_rel) + 1 < static_cast<int>(chunks_.size())) {
    return false;
  }
  End();
  return true;
}

void SharedCollective::End() {
  contributions_.clear();
  done_ns_ = std::max(complete_ns_, MonotonicNow());
  done_.store(true, std::memory_order_release);
}

void SharedCollective::Do(const Chunk& chunk) {
  switch (kind_) {
    case Kind::kAllReduceSum:
      return Sum(chunk);
    case Kind::kReduceScatterSum:
      return ReduceScatter(chunk);
    case Kind::kAllGather:
      return Gather(chunk);
  }
}

// Returns the sum over all members of elements [begin, end) of a tensor.
OrderedSum SharedCollective::SumOf(int tensor, int64_t begin, int64_t end) const {
  OrderedSum sum = {nullptr, {}, end - begin};
  for (const Contribution& contribution : contributions_) {
    sum.terms.push_back(contribution.full[tensor].data<float>() + begin);
  }
  return sum;
}

// Sums into the first member's tensor and copies from there to all others.
void SharedCollective::Sum(const Chunk& chunk) {
  for (int64_t begin = chunk.begin; begin < chunk.end; begin += kBlockElements) {
    OrderedSum sum = SumOf(chunk.tensor, begin, std::min(chunk.end, begin + kBlockElements));
    sum.sum = contributions_[0].full[chunk.tensor].data<float>() + begin;
    AddUp(sum);
    for (size_t m = 1; m < contributions_.size(); ++m) {
      std::copy_n(sum.sum, sum.count, contributions_[m].full[chunk.tensor].data<float>() + begin);
    }
  }
}

void SharedCollective::Gather(const Chunk& chunk) {
  Tensor& full = contributions_[chunk.member].full[chunk.tensor];
  const int64_t n = full.num_elements();
  for (size_t m = 0; m < contributions_.size(); ++m) {
    const Shard from = ShardOf(static_cast<int>(m));
    const int64_t begin = std::max(chunk.begin, from.Begin(n));
    const int64_t end = std::min(chunk.end, from.End(n));
    if (begin >= end) continue;
    const float* const shard = contributions_[m].shards[chunk.tensor].data<float>();
    std::copy(shard + begin - from.Begin(n), shard + end - from.Begin(n),
              full.data<float>() + begin);
  }
}

void SharedCollective::ReduceScatter(const Chunk& chunk) {
  OrderedSum sum = SumOf(chunk.tensor, chunk.begin, chunk.end);
  const int64_t n = contributions_[0].full[chunk.tensor].num_elements();
  sum.sum = contributions_[chunk.member].shards[chunk.tensor].data<float>() + chunk.begin -
            ShardOf(chunk.member).Begin(n);
  sum.adds = true;
  AddUp(sum);
}

}  // namespace dpipe
