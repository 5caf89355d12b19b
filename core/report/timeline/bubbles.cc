#include "core/report/timeline/bubbles.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/proto/instruction_parts.h"

namespace dpipe::report {
namespace {

constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

struct Interval {
  Nanos start_ns;
  Nanos end_ns;
};

// Determines the reasons of one device's idle time in one step.
struct Phases {
  Nanos first_backward_ns = kNever;
  Nanos last_forward_end_ns = 0;
  Nanos passes_end_ns = 0;           // over all devices
  std::vector<Interval> reductions;  // of this device
  std::vector<Interval> gathers;
};

bool Covers(const std::vector<Interval>& intervals, Nanos time_ns) {
  for (const Interval& interval : intervals) {
    if (interval.start_ns <= time_ns && time_ns < interval.end_ns) return true;
  }
  return false;
}

BubbleReason ReasonAt(const Phases& phases, Nanos time_ns) {
  if (Covers(phases.reductions, time_ns)) return GRADIENT_SYNC;
  if (Covers(phases.gathers, time_ns)) return OPTIMIZER;
  if (phases.passes_end_ns > 0 && time_ns >= phases.passes_end_ns) return OPTIMIZER;
  const bool has_passes = phases.last_forward_end_ns > 0;
  if (!has_passes || (time_ns < phases.first_backward_ns && time_ns < phases.last_forward_end_ns)) {
    return WARM_UP;
  }
  return time_ns < phases.last_forward_end_ns ? STEADY : COOL_DOWN;
}

// Appends the idle interval of `bubble`, split at changes of its reason.
void AppendSplit(const Phases& phases, Bubble bubble, std::vector<Bubble>* bubbles) {
  std::vector<Nanos> cuts = {phases.first_backward_ns, phases.last_forward_end_ns,
                             phases.passes_end_ns, bubble.end_ns};
  for (const auto* intervals : {&phases.reductions, &phases.gathers}) {
    for (const Interval& interval : *intervals) {
      cuts.push_back(interval.start_ns);
      cuts.push_back(interval.end_ns);
    }
  }
  std::sort(cuts.begin(), cuts.end());
  const size_t first = bubbles->size();
  Nanos at = bubble.start_ns;
  for (Nanos cut : cuts) {
    if (cut <= at || cut > bubble.end_ns) continue;
    const BubbleReason reason = ReasonAt(phases, at);
    if (bubbles->size() > first && bubbles->back().reason == reason) {
      bubbles->back().end_ns = cut;
    } else {
      bubbles->push_back({bubble.rank, bubble.step, at, cut, reason});
    }
    at = cut;
  }
}

// By rank, then step of the window.
using PhaseTable = std::vector<std::vector<Phases>>;

PhaseTable FindPhases(const TraceIndex& index, StepWindow window) {
  PhaseTable table(index.num_devices(), std::vector<Phases>(window.num_steps));
  std::vector<Nanos> passes_end_ns(window.num_steps, 0);
  for (const TraceIndex::Event& item : index.events()) {
    const TraceEvent& event = *item.event;
    const int step = event.step() - window.first_step;
    if (step < 0 || step >= window.num_steps) continue;
    Phases& phases = table[event.rank()][step];
    const Instruction::Kind kind = item.instruction->kind();
    if (IsBackward(kind)) {
      phases.first_backward_ns = std::min<Nanos>(phases.first_backward_ns, event.start_ns());
    }
    if (kind == Instruction::FORWARD) {
      phases.last_forward_end_ns = std::max<Nanos>(phases.last_forward_end_ns, event.end_ns());
    }
    if (IsBackward(kind) || kind == Instruction::FORWARD) {
      passes_end_ns[step] = std::max<Nanos>(passes_end_ns[step], event.end_ns());
    }
    if (kind == Instruction::REDUCE_GRADS)
      phases.reductions.push_back({event.start_ns(), event.end_ns()});
    if (kind == Instruction::GATHER_PARAMS)
      phases.gathers.push_back({event.start_ns(), event.end_ns()});
  }
  for (auto& steps : table) {
    for (int step = 0; step < window.num_steps; ++step)
      steps[step].passes_end_ns = passes_end_ns[step];
  }
  return table;
}

double* TimeOf(const Instruction& instruction, DeviceTime* device) {
  switch (instruction.kind()) {
    case Instruction::FORWARD:
      return &device->forward_ns;
    case Instruction::RECOMPUTE:
      return &device->recompute_ns;
    case Instruction::FROZEN_FORWARD:
      return instruction.step_offset() > 0 ? &device->next_frozen_ns : &device->frozen_ns;
    case Instruction::LOAD_BATCH:
      return &device->load_ns;
    case Instruction::OPTIMIZER_STEP:
      return &device->optimizer_ns;
    default:
      return &device->backward_ns;
  }
}

}  // namespace

std::vector<Bubble> FindBubbles(const TraceIndex& index, StepWindow window) {
  const PhaseTable phases = FindPhases(index, window);
  std::vector<std::vector<Interval>> busy(index.num_devices());
  for (const TraceIndex::Event& item : index.events()) {
    if (!IsBusy(item.instruction->kind())) continue;
    busy[item.event->rank()].push_back({item.event->start_ns(), item.event->end_ns()});
  }
  std::vector<Bubble> bubbles;
  for (int rank = 0; rank < index.num_devices(); ++rank) {
    size_t next = 0;
    Nanos at = window.num_steps > 0 ? index.StepStart(window.first_step) : 0;
    for (int i = 0; i < window.num_steps; ++i) {
      const int step = window.first_step + i;
      const Nanos end = index.StepEnd(step);
      while (at < end) {
        while (next < busy[rank].size() && busy[rank][next].end_ns <= at) ++next;
        const bool none = next == busy[rank].size();
        const Nanos idle_until = none ? end : std::min<Nanos>(end, busy[rank][next].start_ns);
        if (idle_until > at) AppendSplit(phases[rank][i], {rank, step, at, idle_until}, &bubbles);
        at = none ? end : std::max(at, busy[rank][next].end_ns);
      }
    }
  }
  return bubbles;
}

double DeviceTime::IdleNs() const { return std::accumulate(idle_ns.begin(), idle_ns.end(), 0.0); }

std::vector<DeviceTime> DeviceTimes(const TraceIndex& index, StepWindow window) {
  std::vector<DeviceTime> devices(index.num_devices());
  if (window.num_steps == 0) return devices;
  const Nanos start = index.StepStart(window.first_step);
  const Nanos end = index.StepEnd(window.first_step + window.num_steps - 1);
  for (const TraceIndex::Event& item : index.events()) {
    if (!IsBusy(item.instruction->kind())) continue;
    const Nanos inside =
        std::min<Nanos>(end, item.event->end_ns()) - std::max<Nanos>(start, item.event->start_ns());
    if (inside <= 0) continue;
    *TimeOf(*item.instruction, &devices[item.event->rank()]) +=
        static_cast<double>(inside) / window.num_steps;
  }
  for (const Bubble& bubble : FindBubbles(index, window)) {
    devices[bubble.rank].idle_ns[bubble.reason] +=
        static_cast<double>(bubble.end_ns - bubble.start_ns) / window.num_steps;
  }
  for (DeviceTime& device : devices)
    device.step_ns = static_cast<double>(end - start) / window.num_steps;
  return devices;
}

double BubbleRatio(const std::vector<DeviceTime>& devices) {
  double busy_ns = 0, total_ns = 0;
  for (const DeviceTime& device : devices) {
    busy_ns += device.BusyNs();
    total_ns += device.step_ns;
  }
  return total_ns > 0 ? 1 - busy_ns / total_ns : 0;
}

const char* BubbleReasonName(BubbleReason reason) {
  switch (reason) {
    case WARM_UP:
      return "warm-up";
    case STEADY:
      return "steady";
    case COOL_DOWN:
      return "cool-down";
    case GRADIENT_SYNC:
      return "gradient sync";
    case OPTIMIZER:
      return "optimizer";
    default:
      return "other";
  }
}

}  // namespace dpipe::report
