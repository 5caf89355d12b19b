#include "core/planner/bubbles.h"

#include <algorithm>

#include "core/base/check.h"

namespace dpipe {
namespace {

bool IsMessage(const Instruction& instruction) {
  return instruction.kind() == Instruction::SEND || instruction.kind() == Instruction::RECV;
}

bool IsGradient(Instruction::Kind kind) {
  return kind == Instruction::BACKWARD || kind == Instruction::INPUT_GRAD ||
         kind == Instruction::WEIGHT_GRAD;
}

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

// One rank's compute events of one step, and what else decides why it waits.
class RankTimeline {
 public:
  RankTimeline(const Plan& plan, const std::vector<StreamEvent>& events, int rank, int step)
      : program_(plan.devices(rank)), events_(ComputeEventsOfStep(events, rank, step)) {
    for (int i = 0; i < program_.instructions_size(); ++i) {
      if (IsGradient(Kind(i))) first_gradient_ = std::min(first_gradient_, i);
      if (Kind(i) == Instruction::FORWARD) last_forward_ = i;
    }
    for (const StreamEvent& event : events) {
      if (event.step != step) continue;
      if (event.rank == rank && event.stream == TraceEvent::COLLECTIVE) {
        last_reduction_end_ns_ = std::max(last_reduction_end_ns_, event.end_ns);
      }
      const Instruction& instruction = plan.devices(event.rank).instructions(event.instruction);
      if (event.stream == TraceEvent::COMPUTE &&
          instruction.kind() != Instruction::OPTIMIZER_STEP) {
        last_compute_end_ns_ = std::max(last_compute_end_ns_, event.end_ns);
      }
    }
  }

  const std::vector<StreamEvent>& events() const { return events_; }

  BubbleReason Reason(int instruction, Nanos start_ns) const {
    switch (Kind(instruction)) {
      case Instruction::REDUCE_GRADS:
        return GRADIENT_SYNC;
      case Instruction::FLUSH:
      case Instruction::OPTIMIZER_STEP:
        if (last_reduction_end_ns_ > start_ns) return GRADIENT_SYNC;
        return last_compute_end_ns_ > start_ns ? COOL_DOWN : OPTIMIZER;
      default:
        break;
    }
    if (instruction <= first_gradient_) return WARM_UP;
    return instruction > last_forward_ ? COOL_DOWN : STEADY;
  }

 private:
  Instruction::Kind Kind(int i) const { return program_.instructions(i).kind(); }

  const DeviceProgram& program_;
  const std::vector<StreamEvent> events_;  // the last one of the step before, then the step's
  int first_gradient_ = 1 << 30;
  int last_forward_ = -1;
  Nanos last_reduction_end_ns_ = 0;  // of this rank
  Nanos last_compute_end_ns_ = 0;    // of any rank, optimizer steps apart
};

}  // namespace

std::vector<StreamEvent> ComputeEventsOfStep(const std::vector<StreamEvent>& events, int rank,
                                             int step) {
  std::vector<StreamEvent> result;
  for (const StreamEvent& event : events) {
    if (event.rank != rank || event.stream != TraceEvent::COMPUTE) continue;
    if (event.step == step || event.step == step - 1) result.push_back(event);
  }
  std::sort(result.begin(), result.end(), [](const StreamEvent& a, const StreamEvent& b) {
    return std::make_pair(a.step, a.instruction) < std::make_pair(b.step, b.instruction);
  });
  auto first = std::find_if(result.begin(), result.end(),
                            [step](const StreamEvent& e) { return e.step == step; });
  if (first != result.begin()) result.erase(result.begin(), first - 1);
  return result;
}

std::vector<Bubble> ExtractBubbles(const Plan& plan, const std::vector<StreamEvent>& events,
                                   int step, Nanos min_length_ns) {
  DPIPE_CHECK_GT(step, 0);
  std::vector<Bubble> bubbles;
  for (int rank = 0; rank < plan.devices_size(); ++rank) {
    const RankTimeline timeline(plan, events, rank, step);
    const std::vector<int> positions = Positions(plan.devices(rank));
    for (int i = 1; i < timeline.events().size(); ++i) {
      const StreamEvent& before = timeline.events()[i - 1];
      const StreamEvent& event = timeline.events()[i];
      Bubble bubble;
      bubble.rank = rank;
      bubble.start_ns = before.end_ns;
      bubble.length_ns = event.start_ns - before.end_ns;
      if (bubble.length_ns < std::max<Nanos>(min_length_ns, 1)) continue;
      bubble.reason = timeline.Reason(event.instruction, bubble.start_ns);
      bubble.instruction = event.instruction;
      bubble.position = positions[event.instruction];
      bubbles.push_back(bubble);
    }
  }
  return bubbles;
}

}  // namespace dpipe
