#include "core/planner/bubbles.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

// The number of each instruction among the compute instructions; that of the next one for a
// message.
std::vector<int> Positions(const DeviceProgram& program) {
  std::vector<int> positions;
  int position = 0;
  for (const Instruction& instruction : program.instructions()) {
    positions.push_back(position);
    if (!IsMessage(instruction)) ++position;
  }
  return positions;
}

// Sorts a rank's compute events of two steps by list order and leaves the last of the earlier step.
void KeepStep(int step, std::vector<StreamEvent>* events) {
  std::sort(events->begin(), events->end(), [](const StreamEvent& a, const StreamEvent& b) {
    return std::make_pair(a.step, a.instruction) < std::make_pair(b.step, b.instruction);
  });
  const auto first = std::find_if(events->begin(), events->end(),
                                  [step](const StreamEvent& e) { return e.step == step; });
  if (first != events->begin()) events->erase(events->begin(), first - 1);
}

// Of one step: every rank's events, and when the last rank stops computing.
struct StepEvents {
  // The last of the step before, then the step's, by list order.
  std::vector<std::vector<StreamEvent>> compute;
  std::vector<Nanos> last_reduction_end_ns;       // 0 where there is none
  std::vector<std::vector<StreamEvent>> gathers;  // on streams of their own
  Nanos last_compute_end_ns = 0;                  // of any rank, optimizer steps apart
};

bool WaitsForAll(Instruction::Kind kind) {
  return kind == Instruction::OPTIMIZER_STEP || kind == Instruction::FLUSH;
}

StepEvents EventsOfStep(const Plan& plan, const std::vector<StreamEvent>& events, int step) {
  StepEvents result;
  const int num_ranks = plan.devices_size();
  result.compute.resize(num_ranks);
  result.gathers.resize(num_ranks);
  result.last_reduction_end_ns.assign(num_ranks, 0);
  for (const StreamEvent& event : events) {
    const bool computes = event.stream == TraceEvent::COMPUTE;
    if (event.step == step - 1 && computes) result.compute[event.rank].push_back(event);
    if (event.step != step) continue;
    const Instruction::Kind kind = plan.devices(event.rank).instructions(event.instruction).kind();
    if (computes) {
      result.compute[event.rank].push_back(event);
      if (WaitsForAll(kind)) continue;
      result.last_compute_end_ns = std::max(result.last_compute_end_ns, event.end_ns);
    } else if (kind == Instruction::GATHER_PARAMS) {
      result.gathers[event.rank].push_back(event);
    } else if (event.stream == TraceEvent::COLLECTIVE) {
      Nanos& last = result.last_reduction_end_ns[event.rank];
      last = std::max(last, event.end_ns);
    }
  }
  for (std::vector<StreamEvent>& of_rank : result.compute) KeepStep(step, &of_rank);
  return result;
}

// Why one rank waits.
class RankTimeline {
 public:
  RankTimeline(const Plan& plan, const StepEvents& events, int rank)
      : program_(plan.devices(rank)), events_(events), rank_(rank) {
    for (int i = 0; i < program_.instructions_size(); ++i) {
      if (IsBackward(Kind(i))) first_gradient_ = std::min(first_gradient_, i);
      if (Kind(i) == Instruction::FORWARD) last_forward_ = i;
    }
  }

  const std::vector<StreamEvent>& events() const { return events_.compute[rank_]; }

  // Of the idle time from `start_ns` to the event.
  BubbleReason Reason(const StreamEvent& event, Nanos start_ns) const {
    const Instruction::Kind kind = Kind(event.instruction);
    if (kind == Instruction::REDUCE_GRADS) return GRADIENT_SYNC;
    if (kind == Instruction::GATHER_PARAMS) return OPTIMIZER;
    if (kind == Instruction::OPTIMIZER_STEP && events_.last_reduction_end_ns[rank_] > start_ns) {
      return GRADIENT_SYNC;
    }
    if (WaitsForAll(kind)) {
      return events_.last_compute_end_ns > start_ns ? COOL_DOWN : OPTIMIZER;
    }
    for (const StreamEvent& gather : events_.gathers[rank_]) {
      if (gather.end_ns == event.start_ns) return OPTIMIZER;
    }
    if (event.instruction <= first_gradient_) return WARM_UP;
    return event.instruction > last_forward_ ? COOL_DOWN : STEADY;
  }

 private:
  Instruction::Kind Kind(int i) const { return program_.instructions(i).kind(); }

  const DeviceProgram& program_;
  const StepEvents& events_;
  const int rank_;
  int first_gradient_ = 1 << 30;  // of any stage of the rank; likewise below
  int last_forward_ = -1;
};

}  // namespace

std::vector<StreamEvent> ComputeEventsOfStep(const std::vector<StreamEvent>& events, int rank,
                                             int step) {
  std::vector<StreamEvent> result;
  for (const StreamEvent& event : events) {
    if (event.rank != rank || event.stream != TraceEvent::COMPUTE) continue;
    if (event.step == step || event.step == step - 1) result.push_back(event);
  }
  KeepStep(step, &result);
  return result;
}

std::vector<Bubble> ExtractBubbles(const Plan& plan, const std::vector<StreamEvent>& events,
                                   int step, Nanos min_length_ns) {
  DPIPE_CHECK_GT(step, 0);
  std::vector<Bubble> bubbles;
  const StepEvents of_step = EventsOfStep(plan, events, step);
  for (int rank = 0; rank < plan.devices_size(); ++rank) {
    const RankTimeline timeline(plan, of_step, rank);
    const std::vector<int> positions = Positions(plan.devices(rank));
    for (int i = 1; i < timeline.events().size(); ++i) {
      const StreamEvent& before = timeline.events()[i - 1];
      const StreamEvent& event = timeline.events()[i];
      Bubble bubble;
      bubble.rank = rank;
      bubble.start_ns = before.end_ns;
      bubble.length_ns = event.start_ns - before.end_ns;
      if (bubble.length_ns < std::max<Nanos>(min_length_ns, 1)) continue;
      bubble.reason = timeline.Reason(event, bubble.start_ns);
      bubble.instruction = event.instruction;
      bubble.position = positions[event.instruction];
      bubbles.push_back(bubble);
    }
  }
  return bubbles;
}

}  // namespace dpipe
