#include "core/comm/communicator.h"

namespace dpipe {
namespace {

std::vector<Tensor> Copy(absl::Span<const Tensor> tensors) {
  return std::vector<Tensor>(tensors.begin(), tensors.end());
}

}  // namespace

absl::Status Communicator::AllReduceSum(absl::Span<const Rank> group, absl::Span<Tensor> tensors,
                                        const std::string& what) {
  DPIPE_ASSIGN_OR_RETURN(const auto pending, StartAllReduceSum(group, Copy(tensors), what));
  return pending->Wait();
}

absl::Status Communicator::AllGather(absl::Span<const Rank> group, absl::Span<const Tensor> shards,
                                     absl::Span<Tensor> full, const std::string& what) {
  DPIPE_ASSIGN_OR_RETURN(const auto pending, StartAllGather(group, Copy(shards), Copy(full), what));
  return pending->Wait();
}

absl::Status Communicator::ReduceScatterSum(absl::Span<const Rank> group,
                                            absl::Span<const Tensor> full,
                                            absl::Span<Tensor> shards, const std::string& what) {
  DPIPE_ASSIGN_OR_RETURN(const auto pending,
                         StartReduceScatterSum(group, Copy(full), Copy(shards), what));
  return pending->Wait();
}

}  // namespace dpipe
