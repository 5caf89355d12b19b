#include "core/schedule/builders/list_schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/schedule/builders/pair_budget.h"

namespace dpipe {
namespace {

constexpr int kNone = -1;

// The number of passes of one kind that a stage has begun and ended.
struct PassCount {
  int begun = 0;
  int ended = 0;
};

struct Stage {
  int chain = 0;
  int device = 0;
  int previous = kNone, next = kNone;
  bool forward_only = false;
  int num_micro_batches = 0;
  PassCosts costs;
  int limit = 0;
  Nanos forward_path_ns = 0, gradient_path_ns = 0;  // ListCandidate::remaining_ns
  PassCount forward, gradient, weight;

  int kept() const { return forward_only ? 0 : forward.begun - weight.ended; }
};

struct Device {
  std::vector<int> stages;
  PairBudget room;
  bool busy = false;
  bool touched = true;  // something may have become ready
  Slot running;
  Nanos end_ns = 0;
  std::vector<Slot> slots;
};

class Simulation {
 public:
  Simulation(const std::vector<ScheduleChain>& chains, const ListScheduleOptions& options);

  std::vector<std::vector<Slot>> Run();

 private:
  void SetPaths(int first, int last);
  ListCandidate Describe(Pass pass, int stage) const;
  bool MayStart(Pass pass, const Stage& stage) const;
  bool IsWorthWaiting(const Device& device, Nanos now, const Slot& weight) const;
  std::optional<ListCandidate> Choose(const Device& device) const;
  void Start(int device, Nanos now, bool may_be_weight);
  void Enter(const Stage& stage, int micro_batch);
  void Keep(const Slot& slot);
  void Finish(int device);
  void Touch(int device);
  PassCount& CountOf(const Slot& slot);

  const ListScheduleOptions& options_;
  std::vector<Stage> stages_;
  std::vector<std::map<int, int>> chain_pairs_;  // [chain]: device -> pairs per micro-batch
  std::vector<Device> devices_;
  std::vector<int> touched_;  // the devices that are
  // (end, device) of the running passes.
  std::priority_queue<std::pair<Nanos, int>, std::vector<std::pair<Nanos, int>>, std::greater<>>
      running_;
};

Simulation::Simulation(const std::vector<ScheduleChain>& chains, const ListScheduleOptions& options)
    : options_(options) {
  for (int c = 0; c < static_cast<int>(chains.size()); ++c) {
    const int first = static_cast<int>(stages_.size());
    const int count = static_cast<int>(chains[c].devices.size());
    for (int k = 0; k < count; ++k) {
      const int s = first + k;
      Stage stage;
      stage.chain = c;
      stage.device = chains[c].devices[k];
      stage.previous = k > 0 ? s - 1 : kNone;
      stage.next = k + 1 < count ? s + 1 : kNone;
      stage.forward_only = k < chains[c].num_forward_only;
      stage.num_micro_batches = chains[c].num_micro_batches;
      stage.costs = options.costs.empty() ? PassCosts{1, 1, 1} : options.costs[s];
      stage.limit = options.stage_limits.empty() ? 0 : options.stage_limits[s];
      stages_.push_back(stage);
      if (stage.device >= static_cast<int>(devices_.size())) devices_.resize(stage.device + 1);
      devices_[stage.device].stages.push_back(s);
    }
    SetPaths(first, first + count - 1);
    chain_pairs_.emplace_back();
    for (int s = first; s < first + count; ++s) {
      if (!stages_[s].forward_only) ++chain_pairs_.back()[stages_[s].device];
    }
  }
  for (size_t d = 0; d < devices_.size() && !options.device_limits.empty(); ++d) {
    devices_[d].room = PairBudget(options.device_limits[d]);
  }
}

void Simulation::SetPaths(int first, int last) {
  Nanos path = 0;
  for (int s = first; s <= last; ++s) {
    Stage& stage = stages_[s];
    if (stage.forward_only) continue;
    if (path == 0 && options_.split_backward) path = stage.costs.weight_grad;
    path += stage.costs.input_grad + (options_.split_backward ? 0 : stage.costs.weight_grad);
    stage.gradient_path_ns = path;
  }
  for (int s = last; s >= first; --s) {
    path += stages_[s].costs.forward;
    stages_[s].forward_path_ns = path;
  }
}

PassCount& Simulation::CountOf(const Slot& slot) {
  Stage& stage = stages_[slot.stage];
  if (slot.pass == Pass::kForward) return stage.forward;
  return slot.pass == Pass::kWeightGrad ? stage.weight : stage.gradient;
}

ListCandidate Simulation::Describe(Pass pass, int s) const {
  const Stage& stage = stages_[s];
  ListCandidate candidate;
  candidate.slot.pass = pass;
  candidate.slot.stage = s;
  candidate.chain = stage.chain;
  candidate.forward_only = stage.forward_only;
  candidate.kept_on_device = devices_[stage.device].room.kept();
  candidate.kept_of_stage = stage.kept();
  switch (pass) {
    case Pass::kForward:
      candidate.slot.micro_batch = stage.forward.begun;
      candidate.duration_ns = stage.costs.forward;
      candidate.remaining_ns = stage.forward_path_ns;
      break;
    case Pass::kBackward:
    case Pass::kInputGrad:
      candidate.slot.micro_batch = stage.gradient.begun;
      candidate.duration_ns =
          stage.costs.input_grad + (pass == Pass::kBackward ? stage.costs.weight_grad : 0);
      candidate.remaining_ns = stage.gradient_path_ns;
      break;
    case Pass::kWeightGrad:
      candidate.slot.micro_batch = stage.weight.begun;
      candidate.duration_ns = candidate.remaining_ns = stage.costs.weight_grad;
      break;
  }
  return candidate;
}

bool Simulation::MayStart(Pass pass, const Stage& stage) const {
  if (pass == Pass::kForward) {
    const int m = stage.forward.begun;
    if (m == stage.num_micro_batches) return false;
    if (stage.previous != kNone && stages_[stage.previous].forward.ended <= m) return false;
    if (stage.forward_only) return true;
    return (stage.limit == 0 || stage.kept() < stage.limit) &&
           devices_[stage.device].room.CanAdd(stage.chain, m);
  }
  if (stage.forward_only) return false;
  if (pass == Pass::kWeightGrad) return stage.weight.begun < stage.gradient.ended;
  const int m = stage.gradient.begun;
  return m < stage.forward.ended && (stage.next == kNone || stages_[stage.next].gradient.ended > m);
}

// True if a pass other than a weight gradient becomes ready on the device soon enough, because its
// predecessor is running.
bool Simulation::IsWorthWaiting(const Device& device, Nanos now, const Slot& weight) const {
  if (options_.weight_patience <= 0) return false;
  const Nanos duration = stages_[weight.stage].costs.weight_grad;
  const auto comes_soon = [&](int source, Pass pass, int micro_batch) {
    if (source == kNone) return false;
    const Device& other = devices_[stages_[source].device];
    const Slot& slot = other.running;
    return other.busy && slot.stage == source && slot.micro_batch == micro_batch &&
           (slot.pass == pass || (pass == Pass::kInputGrad && slot.pass == Pass::kBackward)) &&
           static_cast<double>(other.end_ns - now) <
               options_.weight_patience * static_cast<double>(duration);
  };
  for (int s : device.stages) {
    const Stage& stage = stages_[s];
    const bool has_room =
        (stage.limit == 0 || stage.kept() < stage.limit) &&
        (stage.forward_only || device.room.CanAdd(stage.chain, stage.forward.begun));
    if (has_room && comes_soon(stage.previous, Pass::kForward, stage.forward.begun)) return true;
    if (stage.gradient.begun < stage.forward.ended &&
        comes_soon(stage.next, Pass::kInputGrad, stage.gradient.begun)) {
      return true;
    }
  }
  return false;
}

void Simulation::Enter(const Stage& stage, int micro_batch) {
  for (const auto& [device, num_pairs] : chain_pairs_[stage.chain]) {
    devices_[device].room.Enter(stage.chain, micro_batch, num_pairs);
  }
}

void Simulation::Keep(const Slot& slot) {
  const Stage& stage = stages_[slot.stage];
  if (stage.previous == kNone) Enter(stage, slot.micro_batch);
  if (!stage.forward_only) devices_[stage.device].room.Add(stage.chain, slot.micro_batch);
}

// Returns the pass of highest priority that is ready to start.
std::optional<ListCandidate> Simulation::Choose(const Device& device) const {
  const Pass gradient = options_.split_backward ? Pass::kInputGrad : Pass::kBackward;
  const auto rank = [](const ListCandidate& c) {
    return std::make_pair(c.slot.micro_batch, -c.slot.stage);
  };
  std::optional<ListCandidate> best;
  ListPriority best_priority{};
  for (int s : device.stages) {
    for (Pass pass : {Pass::kForward, gradient, Pass::kWeightGrad}) {
      if (!MayStart(pass, stages_[s])) continue;
      const ListCandidate candidate = Describe(pass, s);
      const ListPriority priority = options_.policy(candidate);
      if (best && (priority > best_priority ||
                   (priority == best_priority && rank(candidate) >= rank(*best)))) {
        continue;
      }
      best = candidate;
      best_priority = priority;
    }
  }
  return best;
}

void Simulation::Start(int d, Nanos now, bool may_be_weight) {
  Device& device = devices_[d];
  if (device.busy) device.touched = false;
  if (!device.touched) return;
  const std::optional<ListCandidate> best = Choose(device);
  const bool is_weight = best && best->slot.pass == Pass::kWeightGrad;
  if (is_weight && !may_be_weight) return;
  device.touched = false;
  if (!best || (is_weight && IsWorthWaiting(device, now, best->slot))) return;
  device.busy = true;
  device.running = best->slot;
  device.end_ns = now + best->duration_ns;
  device.slots.push_back(best->slot);
  ++CountOf(best->slot).begun;
  if (best->slot.pass == Pass::kForward) Keep(best->slot);
  running_.push({device.end_ns, d});
}

// Ends the running pass of a device and marks the devices on which another may have become ready.
void Simulation::Finish(int d) {
  Device& device = devices_[d];
  const Slot slot = device.running;
  const Stage& stage = stages_[slot.stage];
  device.busy = false;
  Touch(d);
  ++CountOf(slot).ended;
  if (slot.pass == Pass::kBackward) {
    ++stages_[slot.stage].weight.begun;
    ++stages_[slot.stage].weight.ended;
  }
  if (slot.pass == Pass::kBackward || slot.pass == Pass::kWeightGrad) {
    device.room.Release(stage.chain, slot.micro_batch);
  }
  const int other = slot.pass == Pass::kForward ? stage.next : stage.previous;
  if (slot.pass != Pass::kWeightGrad && other != kNone) {
    Touch(stages_[other].device);
  }
}

void Simulation::Touch(int d) {
  if (devices_[d].touched) return;
  devices_[d].touched = true;
  touched_.push_back(d);
}

std::vector<std::vector<Slot>> Simulation::Run() {
  // Weight gradients are considered last: IsWorthWaiting needs to know what the other devices run.
  const auto start_all = [&](Nanos now) {
    std::sort(touched_.begin(), touched_.end());
    for (bool may_be_weight : {false, true}) {
      for (int d : touched_) Start(d, now, may_be_weight);
    }
    touched_.clear();
  };
  for (int d = 0; d < static_cast<int>(devices_.size()); ++d) touched_.push_back(d);
  start_all(0);
  while (!running_.empty()) {
    const Nanos now = running_.top().first;
    while (!running_.empty() && running_.top().first == now) {
      const int d = running_.top().second;
      running_.pop();
      Finish(d);
    }
    start_all(now);
  }
  std::vector<std::vector<Slot>> slots;
  for (Device& device : devices_) {
    DPIPE_CHECK(device.room.kept() == 0)
        << "a list schedule stopped before all pairs were finished";
    slots.push_back(std::move(device.slots));
  }
  return slots;
}

absl::Status CheckSizes(const std::string& where, const std::vector<ScheduleChain>& chains,
                        const ListScheduleOptions& options) {
  size_t num_stages = 0;
  int num_devices = 0;
  for (const ScheduleChain& chain : chains) {
    num_stages += chain.devices.size();
    for (int d : chain.devices) {
      if (d < 0)
        return absl::InvalidArgumentError(absl::StrCat(where, "device ", d, " is negative"));
      num_devices = std::max(num_devices, d + 1);
    }
  }
  if (num_stages == 0) return absl::InvalidArgumentError(where + "there are no stages");
  for (const auto& [what, size, expected] :
       {std::make_tuple("costs", options.costs.size(), num_stages),
        std::make_tuple("stage limits", options.stage_limits.size(), num_stages),
        std::make_tuple("device limits", options.device_limits.size(),
                        static_cast<size_t>(num_devices))}) {
    if (size == 0 || size == expected) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(where, size, " ", what, "; there must be ", expected));
  }
  for (size_t s = 0; s < options.costs.size(); ++s) {
    const PassCosts& costs = options.costs[s];
    if (std::min({costs.forward, costs.input_grad, costs.weight_grad}) >= 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(where, "stage ", s, " has a negative cost"));
  }
  return absl::OkStatus();
}

absl::Status CheckLimits(const std::string& where, const std::vector<ScheduleChain>& chains,
                         const ListScheduleOptions& options) {
  for (int limit : options.stage_limits) {
    if (limit < 0)
      return absl::InvalidArgumentError(absl::StrCat(where, "stage limit ", limit, " is negative"));
  }
  for (size_t c = 0; c < chains.size() && !options.device_limits.empty(); ++c) {
    std::vector<int> stages(options.device_limits.size(), 0);
    for (size_t k = chains[c].num_forward_only; k < chains[c].devices.size(); ++k) {
      ++stages[chains[c].devices[k]];
    }
    for (size_t d = 0; d < stages.size(); ++d) {
      const int limit = options.device_limits[d];
      if (limit == 0 || limit >= stages[d]) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          where, "device ", d, " may keep ", limit, " (stage, micro-batch) pairs, but one ",
          "micro-batch of chain ", c, " makes ", stages[d], " there"));
    }
  }
  return absl::OkStatus();
}

int KindRank(Pass pass) {
  if (pass == Pass::kWeightGrad) return 2;
  return pass == Pass::kForward ? 1 : 0;
}

}  // namespace

ListPriority GradientsFirst(const ListCandidate& candidate) {
  return {KindRank(candidate.slot.pass), -candidate.remaining_ns, 0};
}

ListPriority LongestPathFirst(const ListCandidate& candidate) {
  return {candidate.slot.pass == Pass::kWeightGrad, -candidate.remaining_ns, 0};
}

ListPriority OldestFirst(const ListCandidate& candidate) {
  return {candidate.slot.pass == Pass::kWeightGrad, candidate.slot.micro_batch, 0};
}

absl::StatusOr<Schedule> ListSchedule(const std::string& name,
                                      const std::vector<ScheduleChain>& chains,
                                      const ListScheduleOptions& options) {
  const std::string where = absl::StrCat("list schedule ", name, ": ");
  DPIPE_RETURN_IF_ERROR(CheckSizes(where, chains, options));
  for (const ScheduleChain& chain : chains) {
    if (chain.num_forward_only >= 0 &&
        chain.num_forward_only < static_cast<int>(chain.devices.size())) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(where, chain.num_forward_only, " of ",
                                                   chain.devices.size(),
                                                   " stages have forward passes only"));
  }
  DPIPE_RETURN_IF_ERROR(CheckLimits(where, chains, options));
  return Schedule::Create(name, chains, Simulation(chains, options).Run());
}

}  // namespace dpipe
