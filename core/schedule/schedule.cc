#include "core/schedule/schedule.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

constexpr Nanos kNotDone = -1;

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

// The passes of one stage seen so far.
struct StageHistory {
  std::vector<bool> forward, gradient;
  int next_weight = 0;
};

// Records a slot. Returns what is wrong with it after the slots before it; empty if nothing is.
std::string FaultOf(const Slot& slot, bool forward_only, StageHistory* history) {
  const int m = slot.micro_batch;
  const int count = static_cast<int>(history->forward.size());
  if (m < 0 || m >= count) {
    return absl::StrCat("micro-batch ", m, " is not one of the ", count);
  }
  if (slot.pass == Pass::kForward) {
    if (history->forward[m]) return "a second forward pass";
    history->forward[m] = true;
    return "";
  }
  if (forward_only) return "the stage has forward passes only";
  if (ComputesInputGrad(slot.pass)) {
    if (!history->forward[m]) return "no forward pass before it";
    if (history->gradient[m]) return "a second backward pass";
    history->gradient[m] = true;
  }
  if (!ComputesWeightGrad(slot.pass)) return "";
  if (!history->gradient[m]) return "no input gradient before it";
  if (m != history->next_weight) {
    return absl::StrCat("weight gradients come in micro-batch order, and ", history->next_weight,
                        " is next, not ", m);
  }
  ++history->next_weight;
  return "";
}

}  // namespace

// By stage and micro-batch, the end of each pass; kNotDone if it never ends.
struct Schedule::Run {
  std::vector<std::vector<Nanos>> forward, gradient;  // [stage][micro-batch]
  std::vector<std::vector<Nanos>> start;              // [device][slot], of the slots that ran
  std::vector<Nanos> device_end;
};

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

Schedule::Schedule(std::string name, std::vector<ScheduleChain> chains,
                   std::vector<std::vector<Slot>> slots)
    : name_(std::move(name)), chains_(std::move(chains)), slots_(std::move(slots)) {
  for (int c = 0; c < static_cast<int>(chains_.size()); ++c) {
    first_stage_.push_back(num_stages());
    const int count = static_cast<int>(chains_[c].devices.size());
    for (int k = 0; k < count; ++k) {
      StageLinks links;
      links.chain = c;
      links.device = chains_[c].devices[k];
      links.previous = k > 0 ? num_stages() - 1 : -1;
      links.next = k + 1 < count ? num_stages() + 1 : -1;
      links.forward_only = k < chains_[c].num_forward_only;
      stages_.push_back(links);
    }
  }
}

absl::StatusOr<Schedule> Schedule::Create(std::string name, std::vector<ScheduleChain> chains,
                                          std::vector<std::vector<Slot>> slots) {
  Schedule schedule(std::move(name), std::move(chains), std::move(slots));
  DPIPE_RETURN_IF_ERROR(schedule.Verify());
  return schedule;
}

absl::StatusOr<Schedule> Schedule::CreateStraight(std::string name, int num_micro_batches,
                                                  std::vector<std::vector<Slot>> slots) {
  ScheduleChain chain;
  chain.num_micro_batches = num_micro_batches;
  for (int d = 0; d < static_cast<int>(slots.size()); ++d) {
    chain.devices.push_back(d);
    for (Slot& slot : slots[d]) slot.stage = d;
  }
  return Create(std::move(name), {std::move(chain)}, std::move(slots));
}

int Schedule::num_micro_batches(int backbone) const {
  int count = 0;
  for (const ScheduleChain& chain : chains_) {
    if (chain.backbone == backbone) count += chain.num_micro_batches;
  }
  return count;
}

bool Schedule::IsStraight() const {
  if (chains_.size() != 1) return false;
  for (int k = 0; k < num_stages(); ++k) {
    if (stages_[k].device != k) return false;
  }
  return num_stages() == num_devices();
}

absl::Status Schedule::VerifyChains() const {
  if (slots_.empty() || chains_.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("schedule ", name_, ": ", slots_.size(),
                                                   " devices and ", chains_.size(),
                                                   " chains; there must be at least one of each"));
  }
  for (int c = 0; c < static_cast<int>(chains_.size()); ++c) {
    const ScheduleChain& chain = chains_[c];
    const std::string where = absl::StrCat("schedule ", name_, ", chain ", c, ": ");
    if (chain.devices.empty() || chain.num_micro_batches < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, chain.devices.size(), " stages and ", chain.num_micro_batches,
                       " micro-batches; there must be at least one of each"));
    }
    if (chain.num_forward_only < 0 ||
        chain.num_forward_only >= static_cast<int>(chain.devices.size())) {
      return absl::InvalidArgumentError(absl::StrCat(where, chain.num_forward_only, " of ",
                                                     chain.devices.size(),
                                                     " stages have forward passes only"));
    }
    for (int device : chain.devices) {
      if (device >= 0 && device < num_devices()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(where, "device ", device, " is not one of the ", num_devices()));
    }
  }
  return absl::OkStatus();
}

absl::Status Schedule::VerifyStages() const {
  std::vector<StageHistory> histories;
  for (const StageLinks& links : stages_) {
    const int count = chains_[links.chain].num_micro_batches;
    histories.push_back({std::vector<bool>(count), std::vector<bool>(count), 0});
  }
  for (int d = 0; d < num_devices(); ++d) {
    for (int i = 0; i < static_cast<int>(slots_[d].size()); ++i) {
      const Slot& slot = slots_[d][i];
      std::string fault;  // becomes a message only on error: schedules are long
      if (slot.stage < 0 || slot.stage >= num_stages()) {
        fault = absl::StrCat("stage ", slot.stage, " is not one of the ", num_stages());
      } else if (stages_[slot.stage].device != d) {
        fault = absl::StrCat("stage ", slot.stage, " is on device ", stages_[slot.stage].device);
      } else {
        fault = FaultOf(slot, stages_[slot.stage].forward_only, &histories[slot.stage]);
      }
      if (fault.empty()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("device ", d, ", slot ", i, " (", Describe(slot), "): ", fault));
    }
  }
  for (int s = 0; s < num_stages(); ++s) {
    const int count = static_cast<int>(histories[s].forward.size());
    // Weight gradients came in order, so each micro-batch before next_weight is complete.
    const int done = stages_[s].forward_only
                         ? static_cast<int>(std::count(histories[s].forward.begin(),
                                                       histories[s].forward.end(), true))
                         : histories[s].next_weight;
    if (done == count) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("stage ", s, ": ", done, " of ", count, " micro-batches are computed"));
  }
  return absl::OkStatus();
}

absl::Status Schedule::Verify() const {
  DPIPE_RETURN_IF_ERROR(VerifyChains());
  DPIPE_RETURN_IF_ERROR(VerifyStages());
  const Run run = Execute(std::vector<PassCosts>(num_stages()));
  for (int d = 0; d < num_devices(); ++d) {
    const size_t done = run.start[d].size();
    if (done == slots_[d].size()) continue;
    return absl::InvalidArgumentError(absl::StrCat("device ", d, ", slot ", done, " (",
                                                   Describe(slots_[d][done]),
                                                   "): waits for a pass that never comes"));
  }
  return absl::OkStatus();
}

// Runs every device as far as possible.
Schedule::Run Schedule::Execute(const std::vector<PassCosts>& costs) const {
  Run run;
  for (const StageLinks& links : stages_) {
    run.forward.emplace_back(chains_[links.chain].num_micro_batches, kNotDone);
  }
  run.gradient = run.forward;
  run.start.resize(slots_.size());
  run.device_end.assign(slots_.size(), 0);
  const auto ready_at = [&](const Slot& slot) {  // kNotDone: unknown so far
    const StageLinks& links = stages_[slot.stage];
    const int m = slot.micro_batch;
    if (slot.pass == Pass::kForward) {
      return links.previous < 0 ? Nanos{0} : run.forward[links.previous][m];
    }
    if (slot.pass == Pass::kWeightGrad) return run.gradient[slot.stage][m];
    const Nanos own = run.forward[slot.stage][m];
    if (links.next < 0 || own == kNotDone) return own;
    const Nanos incoming = run.gradient[links.next][m];
    return incoming == kNotDone ? kNotDone : std::max(own, incoming);
  };
  // A stack of devices that may be able to continue, each at most once.
  std::vector<int> waiting(num_devices());
  std::iota(waiting.rbegin(), waiting.rend(), 0);
  std::vector<bool> is_waiting(num_devices(), true);
  const auto wake = [&](int stage) {
    if (stage < 0 || is_waiting[stages_[stage].device]) return;
    is_waiting[stages_[stage].device] = true;
    waiting.push_back(stages_[stage].device);
  };
  while (!waiting.empty()) {
    const int d = waiting.back();
    waiting.pop_back();
    is_waiting[d] = false;
    while (run.start[d].size() < slots_[d].size()) {
      const Slot& slot = slots_[d][run.start[d].size()];
      const Nanos ready = ready_at(slot);
      if (ready == kNotDone) break;
      const Nanos start = std::max(run.device_end[d], ready);
      const Nanos end = start + CostOf(slot.pass, costs[slot.stage]);
      run.start[d].push_back(start);
      run.device_end[d] = end;
      if (slot.pass == Pass::kForward) {
        run.forward[slot.stage][slot.micro_batch] = end;
        wake(stages_[slot.stage].next);
      }
      if (ComputesInputGrad(slot.pass)) {
        run.gradient[slot.stage][slot.micro_batch] = end;
        wake(stages_[slot.stage].previous);
      }
    }
  }
  return run;
}

int Schedule::PeakStashed(int stage) const {
  int stashed = 0, peak = 0;
  for (const Slot& slot : slots_[stages_[stage].device]) {
    if (slot.stage != stage || stages_[stage].forward_only) continue;
    if (slot.pass == Pass::kForward) peak = std::max(peak, ++stashed);
    if (ComputesWeightGrad(slot.pass)) --stashed;
  }
  return peak;
}

int Schedule::PeakStashedOnDevice(int device) const {
  int stashed = 0, peak = 0;
  for (const Slot& slot : slots_[device]) {
    if (stages_[slot.stage].forward_only) continue;
    if (slot.pass == Pass::kForward) peak = std::max(peak, ++stashed);
    if (ComputesWeightGrad(slot.pass)) --stashed;
  }
  return peak;
}

Nanos Schedule::Makespan(const PassCosts& costs) const {
  return Makespan(std::vector<PassCosts>(num_stages(), costs));
}

Nanos Schedule::Makespan(const std::vector<PassCosts>& costs) const {
  const Run run = Execute(costs);
  return *std::max_element(run.device_end.begin(), run.device_end.end());
}

std::vector<std::vector<Nanos>> Schedule::StartTimes(const std::vector<PassCosts>& costs) const {
  return Execute(costs).start;
}

double Schedule::BubbleRatio(const PassCosts& costs) const {
  return BubbleRatio(std::vector<PassCosts>(num_stages(), costs));
}

double Schedule::BubbleRatio(const std::vector<PassCosts>& costs) const {
  double busy = 0;
  for (const std::vector<Slot>& slots : slots_) {
    for (const Slot& slot : slots)
      busy += static_cast<double>(CostOf(slot.pass, costs[slot.stage]));
  }
  return 1 - busy / (static_cast<double>(num_devices()) * static_cast<double>(Makespan(costs)));
}

std::string Schedule::Describe(const Slot& slot) const {
  const std::string stage = IsStraight() ? "" : absl::StrCat(slot.stage, ".");
  return absl::StrCat(std::string(1, PassLetter(slot.pass)), stage, slot.micro_batch);
}

std::string Schedule::ToString() const {
  std::string text;
  for (const std::vector<Slot>& slots : slots_) {
    for (size_t i = 0; i < slots.size(); ++i) {
      absl::StrAppend(&text, i == 0 ? "" : " ", Describe(slots[i]));
    }
    text += "\n";
  }
  return text;
}

}  // namespace dpipe
