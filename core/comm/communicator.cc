#include "core/comm/communicator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"

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

absl::Status CheckPeer(Rank rank, int size, Rank peer, const std::string& what) {
  if (0 <= peer.value() && peer.value() < size && peer != rank) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("rank ", rank.value(), " has no peer ",
                                                 peer.value(), " for ", what, "; there are ", size,
                                                 " ranks"));
}

RankGroup GroupOf(Rank rank, absl::Span<const Rank> group, const std::string& what) {
  RankGroup result;
  for (Rank r : group) result.ranks.push_back(r.value());
  DPIPE_CHECK(std::is_sorted(result.ranks.begin(), result.ranks.end())) << what;
  const auto own = std::find(result.ranks.begin(), result.ranks.end(), rank.value());
  DPIPE_CHECK(std::count(result.ranks.begin(), result.ranks.end(), rank.value()) == 1)
      << "rank " << rank << " " << what;
  result.own = {static_cast<int>(own - result.ranks.begin()),
                static_cast<int>(result.ranks.size())};
  return result;
}

std::string SpecNames(absl::Span<const TensorSpec> specs) {
  return absl::StrJoin(specs, ", ", [](std::string* out, const TensorSpec& spec) {
    absl::StrAppend(out, DTypeName(spec.dtype), spec.shape.ToString());
  });
}

std::vector<TensorSpec> SpecsOf(absl::Span<const Tensor> tensors) {
  std::vector<TensorSpec> specs;
  for (const Tensor& t : tensors) specs.push_back({t.shape(), t.dtype()});
  return specs;
}

absl::Status WrongSpecs(Rank to, Rank from, const std::string& what, const std::string& expected,
                        const std::string& received) {
  return absl::InternalError(absl::StrCat("rank ", to.value(), ": ", what, " from rank ",
                                          from.value(), " should be (", expected, ") but is (",
                                          received, ")"));
}

}  // namespace dpipe
