// What a session remembers between steps, out and in.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/runtime/local_session.h"

namespace dpipe {
namespace {

std::vector<StateTensor> Weights(const nn::ParameterSet& parameters) {
  std::vector<StateTensor> weights;
  for (nn::ParameterId id : parameters.trainable_ids()) {
    weights.push_back(ElementwiseState(kWeightKind, parameters.program().parameter(id).name,
                                       parameters.part(id), parameters.weight(id).master()));
  }
  return weights;
}

// What a rank has, copies included.
std::vector<StateTensor> AllOf(const RankExecutor::Optimizers& optimizers) {
  std::vector<StateTensor> all;
  for (const auto& [parameters, optimizer] : optimizers) {
    for (StateTensor& weight : Weights(*parameters)) all.push_back(std::move(weight));
    for (StateTensor& own : optimizer->State()) all.push_back(std::move(own));
  }
  return all;
}

// Sorted parts, some of them copies of others: keeps one of each, and checks that the kept ones
// make up whole tensors.
absl::StatusOr<std::vector<StateTensor>> WithoutCopies(std::vector<StateTensor> parts) {
  std::vector<StateTensor> kept;
  for (StateTensor& part : parts) {
    const bool continues =
        !kept.empty() && kept.back().kind == part.kind && kept.back().parameter == part.parameter;
    const int64_t covered = continues ? kept.back().end() : 0;
    const bool was_whole =
        continues || kept.empty() || kept.back().end() == kept.back().whole.num_elements();
    if (!was_whole || part.begin > covered) {
      return absl::InternalError(absl::StrCat("the state '", part.kind, "' of ", part.parameter,
                                              " has no elements [", covered, ", ", part.begin,
                                              "), or the one before it is not whole"));
    }
    if (part.end() > covered && part.begin < covered) {
      return absl::InternalError(absl::StrCat("the state '", part.kind, "' of ", part.parameter,
                                              " has parts that overlap at element ", part.begin));
    }
    if (part.end() > covered) kept.push_back(std::move(part));
  }
  return kept;
}

}  // namespace

absl::StatusOr<SessionState> LocalSession::State() const {
  if (failed_) return absl::FailedPreconditionError("this session ended with an error");
  SessionState state;
  state.next_step = next_step_;
  std::vector<StateTensor> parts;
  for (const auto& rank : ranks_) {
    const RankExecutor::Optimizers& optimizers = rank->executor->optimizers();
    for (StateTensor& part : AllOf(optimizers)) parts.push_back(std::move(part));
    for (const auto& [parameters, optimizer] : optimizers) {
      state.num_updates = std::max(state.num_updates, optimizer->num_updates());
    }
  }
  // Of parts that begin together the longest first, and then the lowest rank's.
  std::stable_sort(parts.begin(), parts.end(), [](const StateTensor& a, const StateTensor& b) {
    return std::make_tuple(a.kind, a.parameter, a.begin, -a.end()) <
           std::make_tuple(b.kind, b.parameter, b.begin, -b.end());
  });
  DPIPE_ASSIGN_OR_RETURN(state.tensors, WithoutCopies(std::move(parts)));
  return state;
}

absl::Status LocalSession::RestoreRank(int rank, int64_t num_updates, const StateReader& read) {
  for (const auto& [parameters, optimizer] : ranks_[rank]->executor->optimizers()) {
    for (const StateTensor& weight : Weights(*parameters)) DPIPE_RETURN_IF_ERROR(read(weight));
    for (nn::ParameterId id : parameters->trainable_ids()) {
      parameters->mutable_weight(id)->MarkUpdated();
    }
    for (const StateTensor& own : optimizer->State()) DPIPE_RETURN_IF_ERROR(read(own));
    DPIPE_RETURN_IF_ERROR(optimizer->StateRestored(num_updates));
  }
  return absl::OkStatus();
}

absl::Status LocalSession::Restore(int64_t num_updates, const StateReader& read) {
  return FirstError(
      RunOnAll(options_.workers, [&](int rank) { return RestoreRank(rank, num_updates, read); }));
}

}  // namespace dpipe
