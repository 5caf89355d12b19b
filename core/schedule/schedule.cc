#include "core/schedule/schedule.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

constexpr Nanos kNotDone = -1;

std::string Describe(const Slot& slot) {
  return absl::StrCat(std::string(1, PassLetter(slot.pass)), slot.micro_batch);
}

// When each pass of each micro-batch ends, by stage; kNotDone where it never does.
struct Progress {
  std::vector<std::vector<Nanos>> forward,
      gradient;           // [stage][micro-batch]; gradient: to the inputs
  std::vector<int> done;  // slots, by stage
  std::vector<Nanos> stage_end;
};

// When the inputs of a slot are there; kNotDone if that is not known yet.
Nanos ReadyAt(const Progress& p, int stage, const Slot& slot) {
  const int m = slot.micro_batch;
  const int last = static_cast<int>(p.forward.size()) - 1;
  switch (slot.pass) {
    case Pass::kForward:
      return stage == 0 ? 0 : p.forward[stage - 1][m];
    case Pass::kWeightGrad:
      return p.gradient[stage][m];
    case Pass::kBackward:
    case Pass::kInputGrad:
      break;
  }
  const Nanos own = p.forward[stage][m];
  if (stage == last || own == kNotDone) return own;
  const Nanos incoming = p.gradient[stage + 1][m];
  return incoming == kNotDone ? kNotDone : std::max(own, incoming);
}

Nanos CostOf(Pass pass, const PassCosts& costs) {
  switch (pass) {
    case Pass::kForward:
      return costs.forward;
    case Pass::kBackward:
      return costs.input_grad + costs.weight_grad;
    case Pass::kInputGrad:
      return costs.input_grad;
    case Pass::kWeightGrad:
      return costs.weight_grad;
  }
  return 0;
}

// Runs every stage as far as it gets.
Progress Run(const std::vector<std::vector<Slot>>& stages, int num_micro_batches,
             const PassCosts& costs) {
  const int count = static_cast<int>(stages.size());
  Progress p;
  p.forward.assign(count, std::vector<Nanos>(num_micro_batches, kNotDone));
  p.gradient = p.forward;
  p.done.assign(count, 0);
  p.stage_end.assign(count, 0);
  for (bool progress = true; progress;) {
    progress = false;
    for (int s = 0; s < count; ++s) {
      while (p.done[s] < static_cast<int>(stages[s].size())) {
        const Slot& slot = stages[s][p.done[s]];
        const Nanos ready = ReadyAt(p, s, slot);
        if (ready == kNotDone) break;
        p.stage_end[s] = std::max(p.stage_end[s], ready) + CostOf(slot.pass, costs);
        if (slot.pass == Pass::kForward) p.forward[s][slot.micro_batch] = p.stage_end[s];
        if (slot.pass == Pass::kBackward || slot.pass == Pass::kInputGrad) {
          p.gradient[s][slot.micro_batch] = p.stage_end[s];
        }
        ++p.done[s];
        progress = true;
      }
    }
  }
  return p;
}

// Each micro-batch's passes once, in an order that one stage can run, weight gradients in order.
absl::Status VerifyStage(int stage, const std::vector<Slot>& slots, int num_micro_batches) {
  std::vector<int> forward(num_micro_batches, 0), gradient(num_micro_batches, 0);
  int next_weight = 0;
  for (int i = 0; i < static_cast<int>(slots.size()); ++i) {
    const Slot& slot = slots[i];
    const std::string at = absl::StrCat("stage ", stage, ", slot ", i, " (", Describe(slot), "): ");
    const int m = slot.micro_batch;
    if (m < 0 || m >= num_micro_batches) {
      return absl::InvalidArgumentError(
          absl::StrCat(at, "micro-batch ", m, " is not one of the ", num_micro_batches));
    }
    const bool weight = slot.pass == Pass::kBackward || slot.pass == Pass::kWeightGrad;
    if (slot.pass == Pass::kForward && forward[m]++ > 0) {
      return absl::InvalidArgumentError(absl::StrCat(at, "a second forward pass"));
    }
    if (slot.pass == Pass::kBackward || slot.pass == Pass::kInputGrad) {
      if (forward[m] == 0) {
        return absl::InvalidArgumentError(absl::StrCat(at, "no forward pass before it"));
      }
      if (gradient[m]++ > 0) {
        return absl::InvalidArgumentError(absl::StrCat(at, "a second backward pass"));
      }
    }
    if (weight && gradient[m] == 0) {
      return absl::InvalidArgumentError(absl::StrCat(at, "no input gradient before it"));
    }
    if (weight && m != next_weight++) {
      return absl::InvalidArgumentError(
          absl::StrCat(at, "weight gradients come in micro-batch order, and ", next_weight - 1,
                       " is next, not ", m));
    }
  }
  // next_weight counts weight gradients; as they came in order, each micro-batch before it is
  // complete.
  if (next_weight != num_micro_batches) {
    return absl::InvalidArgumentError(absl::StrCat("stage ", stage, ": ", next_weight, " of ",
                                                   num_micro_batches,
                                                   " micro-batches are computed"));
  }
  return absl::OkStatus();
}

}  // namespace

char PassLetter(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return 'F';
    case Pass::kBackward:
      return 'B';
    case Pass::kInputGrad:
      return 'I';
    case Pass::kWeightGrad:
      return 'W';
  }
  return '?';
}

absl::StatusOr<Schedule> Schedule::Create(std::string name, int num_micro_batches,
                                          std::vector<std::vector<Slot>> stages) {
  Schedule schedule(std::move(name), num_micro_batches, std::move(stages));
  DPIPE_RETURN_IF_ERROR(schedule.Verify());
  return schedule;
}

absl::Status Schedule::Verify() const {
  if (stages_.empty() || num_micro_batches_ < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", name_, ": ", stages_.size(), " stages and ", num_micro_batches_,
                     " micro-batches; there must be at least one of each"));
  }
  for (int s = 0; s < num_stages(); ++s) {
    DPIPE_RETURN_IF_ERROR(VerifyStage(s, stages_[s], num_micro_batches_));
  }
  const Progress progress = Run(stages_, num_micro_batches_, PassCosts{});
  for (int s = 0; s < num_stages(); ++s) {
    const int done = progress.done[s];
    if (done == static_cast<int>(stages_[s].size())) continue;
    return absl::InvalidArgumentError(absl::StrCat("stage ", s, ", slot ", done, " (",
                                                   Describe(stages_[s][done]),
                                                   "): waits for a pass that never comes"));
  }
  return absl::OkStatus();
}

int Schedule::PeakStashed(int stage) const {
  int stashed = 0, peak = 0;
  for (const Slot& slot : stages_[stage]) {
    if (slot.pass == Pass::kForward) peak = std::max(peak, ++stashed);
    if (slot.pass == Pass::kBackward || slot.pass == Pass::kWeightGrad) --stashed;
  }
  return peak;
}

Nanos Schedule::Makespan(const PassCosts& costs) const {
  const Progress progress = Run(stages_, num_micro_batches_, costs);
  return *std::max_element(progress.stage_end.begin(), progress.stage_end.end());
}

double Schedule::BubbleRatio(const PassCosts& costs) const {
  const double busy = static_cast<double>(costs.forward + costs.input_grad + costs.weight_grad) *
                      num_micro_batches_;
  return 1 - busy / static_cast<double>(Makespan(costs));
}

std::string Schedule::ToString() const {
  std::string text;
  for (const std::vector<Slot>& slots : stages_) {
    for (size_t i = 0; i < slots.size(); ++i) {
      absl::StrAppend(&text, i == 0 ? "" : " ", Describe(slots[i]));
    }
    text += "\n";
  }
  return text;
}

}  // namespace dpipe
