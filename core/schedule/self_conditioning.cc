#include "core/schedule/self_conditioning.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

// Stage ids of the result. Stage k of chain c has the id first(c) + k in the first lap and
// first(c) + S + k in the second one; first(c) is twice that of the given schedule.
class Laps {
 public:
  explicit Laps(const Schedule& schedule) : schedule_(schedule) {}

  int First(int stage) const { return stage + schedule_.FirstStageOf(schedule_.ChainOf(stage)); }
  int Second(int stage) const { return First(stage) + LengthOf(stage); }

 private:
  int LengthOf(int stage) const {
    return static_cast<int>(schedule_.chains()[schedule_.ChainOf(stage)].devices.size());
  }

  const Schedule& schedule_;
};

class Merge {
 public:
  Merge(const Schedule& schedule, const std::vector<PassCosts>& costs, int lead);

  std::vector<std::vector<Slot>> Run();

 private:
  struct Stage {  // a stage of the given schedule
    int first_lap_begun = 0, first_lap_ended = 0;
    int forward_begun = 0;
    std::vector<bool> forward, gradient;  // by micro-batch: ended
  };
  struct Running {
    bool busy = false;
    bool first_lap = false;
    Slot slot;  // its stage is one of the given schedule
  };

  bool IsReady(const Slot& slot) const;
  // Returns the device's first-lap pass that could start now and is least far ahead.
  std::optional<Slot> FirstLapPass(int device) const;
  int LeadOf(const Slot& first_lap) const;
  Nanos CostOf(bool first_lap, const Slot& slot) const;
  void Start(int device, Nanos now);
  void Finish(int device);

  const Schedule& schedule_;
  const Laps laps_;
  const std::vector<PassCosts>& costs_;
  const int lead_;
  std::vector<Stage> stages_;
  std::vector<std::vector<int>> device_stages_;
  std::vector<size_t> next_;  // [device]: the next slot of the given schedule
  std::vector<Running> running_;
  std::vector<bool> touched_;  // [device]: a pass may have become ready
  std::vector<std::vector<Slot>> slots_;
  std::priority_queue<std::pair<Nanos, int>, std::vector<std::pair<Nanos, int>>, std::greater<>>
      ends_;
};

Merge::Merge(const Schedule& schedule, const std::vector<PassCosts>& costs, int lead)
    : schedule_(schedule), laps_(schedule), costs_(costs), lead_(lead) {
  device_stages_.resize(schedule.num_devices());
  for (int s = 0; s < schedule.num_stages(); ++s) {
    const int count = schedule.chains()[schedule.ChainOf(s)].num_micro_batches;
    stages_.push_back({0, 0, 0, std::vector<bool>(count), std::vector<bool>(count)});
    device_stages_[schedule.DeviceOf(s)].push_back(s);
  }
  next_.resize(schedule.num_devices());
  running_.resize(schedule.num_devices());
  touched_.assign(schedule.num_devices(), true);
  slots_.resize(schedule.num_devices());
}

bool Merge::IsReady(const Slot& slot) const {
  const int m = slot.micro_batch;
  if (slot.pass == Pass::kForward) {
    const int previous = schedule_.Previous(slot.stage);
    if (previous >= 0) return stages_[previous].forward[m];
    const ScheduleChain& chain = schedule_.chains()[schedule_.ChainOf(slot.stage)];
    const int last = slot.stage + static_cast<int>(chain.devices.size()) - 1;
    return stages_[last].first_lap_ended > m;
  }
  if (slot.pass == Pass::kWeightGrad) return stages_[slot.stage].gradient[m];
  const int next = schedule_.Next(slot.stage);
  return stages_[slot.stage].forward[m] && (next < 0 || stages_[next].gradient[m]);
}

int Merge::LeadOf(const Slot& first_lap) const {
  return first_lap.micro_batch - stages_[first_lap.stage].forward_begun;
}

std::optional<Slot> Merge::FirstLapPass(int device) const {
  std::optional<Slot> best;
  for (int s : device_stages_[device]) {
    const Slot slot = {Pass::kForward, stages_[s].first_lap_begun, s};
    if (slot.micro_batch == static_cast<int>(stages_[s].forward.size())) continue;
    const int previous = schedule_.Previous(s);
    if (previous >= 0 && stages_[previous].first_lap_ended <= slot.micro_batch) continue;
    if (!best || LeadOf(slot) <= LeadOf(*best)) best = slot;  // ties: later stages finish a lap
  }
  return best;
}

Nanos Merge::CostOf(bool first_lap, const Slot& slot) const {
  const PassCosts& costs = costs_[first_lap ? laps_.First(slot.stage) : laps_.Second(slot.stage)];
  if (slot.pass == Pass::kForward) return costs.forward;
  return (slot.pass == Pass::kWeightGrad ? 0 : costs.input_grad) +
         (slot.pass == Pass::kInputGrad ? 0 : costs.weight_grad);
}

void Merge::Start(int d, Nanos now) {
  if (!touched_[d]) return;
  touched_[d] = false;
  if (running_[d].busy) return;
  const std::optional<Slot> first = FirstLapPass(d);
  const bool ready = next_[d] < schedule_.slots(d).size() && IsReady(schedule_.slots(d)[next_[d]]);
  if (!first && !ready) return;
  Running& running = running_[d];
  running.first_lap = first && (!ready || LeadOf(*first) < lead_);
  running.busy = true;
  running.slot = running.first_lap ? *first : schedule_.slots(d)[next_[d]++];
  Stage& stage = stages_[running.slot.stage];
  if (running.first_lap) {
    ++stage.first_lap_begun;
  } else if (running.slot.pass == Pass::kForward) {
    ++stage.forward_begun;
  }
  Slot slot = running.slot;
  slot.stage = running.first_lap ? laps_.First(slot.stage) : laps_.Second(slot.stage);
  slots_[d].push_back(slot);
  ends_.push({now + CostOf(running.first_lap, running.slot), d});
}

void Merge::Finish(int d) {
  Running& running = running_[d];
  const int s = running.slot.stage;
  running.busy = false;
  touched_[d] = true;
  Stage& stage = stages_[s];
  int other = -1;  // the stage that may be able to continue
  if (running.first_lap) {
    ++stage.first_lap_ended;
    const int chain = schedule_.ChainOf(s);
    other = schedule_.Next(s) >= 0 ? schedule_.Next(s) : schedule_.FirstStageOf(chain);
  } else if (running.slot.pass == Pass::kForward) {
    stage.forward[running.slot.micro_batch] = true;
    other = schedule_.Next(s);
  } else if (running.slot.pass != Pass::kWeightGrad) {
    stage.gradient[running.slot.micro_batch] = true;
    other = schedule_.Previous(s);
  }
  if (other >= 0) touched_[schedule_.DeviceOf(other)] = true;
}

std::vector<std::vector<Slot>> Merge::Run() {
  Nanos now = 0;
  while (true) {
    for (int d = 0; d < schedule_.num_devices(); ++d) Start(d, now);
    if (ends_.empty()) break;
    now = ends_.top().first;
    while (!ends_.empty() && ends_.top().first == now) {
      Finish(ends_.top().second);
      ends_.pop();
    }
  }
  for (int d = 0; d < schedule_.num_devices(); ++d) {
    DPIPE_CHECK(next_[d] == schedule_.slots(d).size()) << "a first lap is stuck";
  }
  return std::move(slots_);
}

absl::Status CheckNumCosts(const Schedule& schedule, const std::vector<PassCosts>& costs) {
  if (static_cast<int>(costs.size()) == 2 * schedule.num_stages()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("schedule ", schedule.name(),
                                                 " with self-conditioning: costs of ", costs.size(),
                                                 " stages; it has ", 2 * schedule.num_stages()));
}

}  // namespace

absl::StatusOr<std::vector<PassCosts>> CostsOfSecondLap(const Schedule& schedule,
                                                        const std::vector<PassCosts>& costs) {
  DPIPE_RETURN_IF_ERROR(CheckNumCosts(schedule, costs));
  const Laps laps(schedule);
  std::vector<PassCosts> second;
  for (int s = 0; s < schedule.num_stages(); ++s) second.push_back(costs[laps.Second(s)]);
  return second;
}

absl::StatusOr<Schedule> WithSelfConditioning(const Schedule& schedule,
                                              const std::vector<PassCosts>& costs) {
  std::vector<PassCosts> all = costs;
  if (all.empty()) all.assign(2 * schedule.num_stages(), {1, 1, 1});
  DPIPE_RETURN_IF_ERROR(CheckNumCosts(schedule, all));
  std::vector<ScheduleChain> chains = schedule.chains();
  int max_micro_batches = 1;
  for (ScheduleChain& chain : chains) {
    if (chain.num_forward_only != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "schedule ", schedule.name(), " has ", chain.num_forward_only,
          " forward-only stages already; self-conditioning adds them to one that has none"));
    }
    chain.num_forward_only = static_cast<int>(chain.devices.size());
    chain.devices.insert(chain.devices.end(), chain.devices.begin(), chain.devices.end());
    max_micro_batches = std::max(max_micro_batches, chain.num_micro_batches);
  }
  const int p = schedule.num_devices();
  std::optional<Schedule> best;
  Nanos best_makespan = 0;
  for (int lead : std::set<int>{1, std::min(p, max_micro_batches),
                                std::min(2 * p, max_micro_batches), max_micro_batches}) {
    DPIPE_ASSIGN_OR_RETURN(Schedule merged, Schedule::Create(schedule.name(), chains,
                                                             Merge(schedule, all, lead).Run()));
    const Nanos makespan = merged.Makespan(all);
    if (best && makespan >= best_makespan) continue;
    best_makespan = makespan;
    best = std::move(merged);
  }
  return *std::move(best);
}

}  // namespace dpipe
