#include "core/emulation/collective_sums.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/shard.h"

namespace dpipe {
namespace {

using Members = std::map<int, EmulatedCollective::Member>;

std::vector<float> Sum(const Members& members, std::vector<Tensor> EmulatedCollective::Member::*of,
                       size_t i) {
  std::vector<float> sum;
  for (const auto& [rank, member] : members) {
    const absl::Span<const float> theirs = (member.*of)[i].span<float>();
    if (sum.empty()) {
      sum.assign(theirs.begin(), theirs.end());
      continue;
    }
    DPIPE_CHECK_EQ(theirs.size(), sum.size()) << "rank " << rank << ", tensor " << i;
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += theirs[k];
  }
  return sum;
}

void AllReduce(Members* members) {
  const size_t num_tensors = members->begin()->second.out.size();
  for (size_t i = 0; i < num_tensors; ++i) {
    const std::vector<float> sum = Sum(*members, &EmulatedCollective::Member::out, i);
    for (auto& [rank, member] : *members) {
      std::copy(sum.begin(), sum.end(), member.out[i].data<float>());
    }
  }
}

void AllGather(Members* members) {
  const size_t num_tensors = members->begin()->second.in.size();
  for (size_t i = 0; i < num_tensors; ++i) {
    std::vector<float> whole;
    for (const auto& [rank, member] : *members) {
      const absl::Span<const float> shard = member.in[i].span<float>();
      whole.insert(whole.end(), shard.begin(), shard.end());
    }
    for (auto& [rank, member] : *members) {
      DPIPE_CHECK_EQ(member.out[i].num_elements(), static_cast<int64_t>(whole.size()))
          << "rank " << rank << ", tensor " << i;
      std::copy(whole.begin(), whole.end(), member.out[i].data<float>());
    }
  }
}

void ReduceScatter(Members* members) {
  const size_t num_tensors = members->begin()->second.in.size();
  for (size_t i = 0; i < num_tensors; ++i) {
    const std::vector<float> sum = Sum(*members, &EmulatedCollective::Member::in, i);
    Shard shard{0, static_cast<int>(members->size())};
    for (auto& [rank, member] : *members) {
      const absl::Span<float> own = member.out[i].span<float>();
      const int64_t begin = shard.Begin(static_cast<int64_t>(sum.size()));
      DPIPE_CHECK_EQ(static_cast<int64_t>(own.size()), shard.Size(static_cast<int64_t>(sum.size())))
          << "rank " << rank << ", tensor " << i;
      for (size_t k = 0; k < own.size(); ++k) own[k] += sum[begin + k];
      ++shard.index;
    }
  }
}

}  // namespace

void ExchangeTensors(EmulatedCollective* collective) {
  switch (collective->kind) {
    case CollectiveKind::kAllReduce:
      return AllReduce(&collective->members);
    case CollectiveKind::kAllGather:
      return AllGather(&collective->members);
    case CollectiveKind::kReduceScatter:
      return ReduceScatter(&collective->members);
  }
}

}  // namespace dpipe
