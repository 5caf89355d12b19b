// The global norm and the optimizer step.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ops/optimizer/optimizer.h"
#include "core/runtime/interpreter/rank_executor.h"

namespace dpipe {

// Assigns one slot to each parameter of all backbones. Of the ranks that hold a layer, which have
// the same gradients, the lowest one contributes its squares and all others add zeros. So the sum's
// bits do not depend on the partition.
void RankExecutor::PrepareNorm() {
  std::vector<int> first_slot(model().num_components(), 0);
  std::vector<std::vector<int>> speakers(model().num_components());  // by component and layer
  for (int index : model().backbones()) {
    first_slot[index] = num_norm_slots_;
    num_norm_slots_ += component(index).program.num_parameters();
    speakers[index].assign(component(index).program.num_layers(), resources_.communicator->size());
  }
  for (const Stage& stage : plan().stages()) {
    const int lowest = *std::min_element(stage.ranks().begin(), stage.ranks().end());
    for (int l = stage.layers().begin(); l < stage.layers().end(); ++l) {
      int& speaker = speakers[stage.component()][l];
      speaker = std::min(speaker, lowest);
    }
  }
  std::set<int> slots;
  for (size_t s = 0; s < now().stage_parameters.size(); ++s) {
    nn::ParameterSet* parameters = now().stage_parameters[s];
    if (parameters == nullptr) continue;
    const int index = routes(s).component;
    if (now().stage_shards[s] != nullptr) parameters = now().stage_shards[s];
    for (nn::ParameterId id : parameters->trainable_ids()) {
      const int slot = first_slot[index] + id.value();
      const int layer = parameters->program().parameter(id).layer;
      const bool speaks = routes(s).sharded || speakers[index][layer] == rank_.value();
      if (!speaks || !slots.insert(slot).second) continue;
      norm_slots_.push_back(slot);
      norm_grads_.push_back(*parameters->grad(id));
    }
  }
}

// Losses that are not finite are counted in a separate slot: a loss may overflow although its
// gradients do not, and only its own rank would know.
absl::Status RankExecutor::SumNorm(int64_t step) {
  std::vector<double> terms(num_norm_slots_ + 1, 0.0);
  DPIPE_ASSIGN_OR_RETURN(const std::vector<double> squares, ops::SumsOfSquares(norm_grads_));
  for (size_t i = 0; i < squares.size(); ++i) terms[norm_slots_[i]] = squares[i];
  FetchLosses();
  terms.back() = static_cast<double>(NumBadLosses());
  resources_.clock->FinishPart();
  Record(step, TraceEvent::COMPUTE);  // the wait that follows is not work
  DPIPE_RETURN_IF_ERROR(
      resources_.communicator->AllReduceSum(absl::MakeSpan(terms), "the gradients' global norm"));
  outcome_.num_bad_losses = static_cast<int64_t>(terms.back());
  terms.pop_back();
  double sum = 0;
  for (double square : terms) sum += square;
  outcome_.global_norm = std::sqrt(sum);
  // Every rank has the same numbers, so either all of them skip or none does.
  outcome_.applied = outcome_.num_bad_losses == 0 && std::isfinite(outcome_.global_norm);
  MarkStart();
  return absl::OkStatus();
}

absl::Status RankExecutor::CheckFinished() const {
  if (!micro_batches_.empty()) {
    const auto& [stage, micro_batch] = micro_batches_.begin()->first;
    return absl::FailedPreconditionError(
        absl::StrCat(micro_batches_.size(), " passes are not finished; the first is micro-batch ",
                     micro_batch, " on stage ", stage));
  }
  for (size_t s = 0; s < now().stage_shards.size(); ++s) {
    if (now().stage_shards[s] == nullptr) continue;
    if (now().stage_parameters[s]->grad_bytes() == 0) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("gradients of stage ", s, " are not reduced"));
  }
  return absl::OkStatus();
}

absl::Status RankExecutor::OptimizerStep(const Instruction& instruction, int64_t step) {
  const bool last =
      !plan().has_relaxation() || instruction.micro_batch() == plan().num_micro_batches() - 1;
  if (last) DPIPE_RETURN_IF_ERROR(CheckFinished());
  DPIPE_RETURN_IF_ERROR(AwaitCollectives(collectives_.size()));
  MarkStart();
  if (plan().has_relaxation()) {
    DPIPE_RETURN_IF_ERROR(Update(step, last));
    if (last) DPIPE_RETURN_IF_ERROR(CheckLosses(step));
  } else {
    outcome_ = StepOutcome();
    if (plan().global_norm()) DPIPE_RETURN_IF_ERROR(SumNorm(step));
    for (auto& [parameters, optimizer] : optimizers_) {
      if (outcome_.applied) {
        DPIPE_RETURN_IF_ERROR(
            optimizer->Step(step, /*ends_step=*/true, outcome_.global_norm, parameters));
      }
      parameters->ZeroGrads();
    }
  }
  if (!last) {
    ++updates_in_step_;
    return absl::OkStatus();
  }
  updates_in_step_ = 0;
  frozen_.DropThrough(step);
  return absl::OkStatus();
}

// Makes one of several updates in a step of a relaxed plan, while micro-batches are in flight.
absl::Status RankExecutor::Update(int64_t step, bool ends_step) {
  for (const auto& versions : versions_) {
    if (versions != nullptr) versions->BeginUpdate();
  }
  for (auto& [parameters, optimizer] : optimizers_) {
    DPIPE_RETURN_IF_ERROR(optimizer->Step(step, ends_step, /*global_norm=*/-1, parameters));
    parameters->ZeroGrads();
  }
  for (const auto& versions : versions_) {
    if (versions != nullptr) versions->EndUpdate();
  }
  return absl::OkStatus();
}

// Returns FailedPrecondition if losses are not finite. The step's updates have been made, so it
// cannot be skipped.
absl::Status RankExecutor::CheckLosses(int64_t step) {
  FetchLosses();
  const int64_t bad = NumBadLosses();
  if (bad == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("step ", step + 1, ": ", bad, " of ", plan().global_batch(),
                   " losses are not finite, and this plan has already applied them to the weights: "
                   "the training has diverged; resume from the newest checkpoint with a lower "
                   "learning rate"));
}

int64_t RankExecutor::NumBadLosses() const {
  int64_t bad = 0;
  for (const StepLosses& part : losses_) {
    for (float loss : part.losses) bad += std::isfinite(loss) ? 0 : 1;
  }
  return bad;
}

}  // namespace dpipe
