// Accessors for the parts of an instruction, and predicates on its kind.
#ifndef DPIPE_CORE_PROTO_INSTRUCTION_PARTS_H_
#define DPIPE_CORE_PROTO_INSTRUCTION_PARTS_H_

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/range.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

inline LayerRange LayersIn(const Instruction& instruction) {
  return {instruction.layers().begin(), instruction.layers().end()};
}
inline LayerRange LayersIn(const Stage& stage) {
  return {stage.layers().begin(), stage.layers().end()};
}
// Returns the blocks of layers that a stage recomputes, from the first to the last: all of its
// layers, divided at `cuts`.
template <typename Cuts>
std::vector<LayerRange> BlocksOf(LayerRange layers, const Cuts& cuts) {
  std::vector<LayerRange> blocks;
  int begin = layers.begin;
  for (int cut : cuts) {
    blocks.push_back({begin, cut});
    begin = cut;
  }
  blocks.push_back({begin, layers.end});
  return blocks;
}
inline std::vector<LayerRange> BlocksOf(const Stage& stage) {
  return BlocksOf(LayersIn(stage), stage.recompute_cuts());
}
// Returns the layers of a pass on a stage: the instruction's own, or `stage` if it names none.
inline LayerRange LayersIn(const Instruction& instruction, LayerRange stage) {
  const LayerRange layers = LayersIn(instruction);
  return layers.empty() ? stage : layers;
}
inline SampleRange SamplesIn(const Instruction& instruction) {
  return {instruction.samples().begin(), instruction.samples().end()};
}

// True for SEND and RECV; collectives are not messages.
inline bool IsMessage(Instruction::Kind kind) {
  return kind == Instruction::SEND || kind == Instruction::RECV;
}
inline bool IsMessage(const Instruction& instruction) { return IsMessage(instruction.kind()); }

// True for messages of frozen components. They name a component instead of stages.
inline bool IsOfFrozen(Instruction::Payload payload) {
  return payload == Instruction::FROZEN_OUTPUT || payload == Instruction::FROZEN_VALUES;
}

// Returns the fields that match between the SEND and the RECV of a message, which `rank` executes
// in step `step`. Messages with equal keys arrive in the order in which they were sent.
using MessageKey = std::tuple<int, int, int, int, int, int, int, int, int, int, int, int>;
inline MessageKey MessageKeyOf(int rank, int step, const Instruction& instruction) {
  const bool is_send = instruction.kind() == Instruction::SEND;
  const bool is_of_frozen = IsOfFrozen(instruction.payload());
  // Stages are unordered: each end may name its own first.
  const int stage_a = std::min(instruction.stage(), instruction.peer_stage());
  const int stage_b = std::max(instruction.stage(), instruction.peer_stage());
  return {step,
          is_send ? rank : instruction.peer(),
          is_send ? instruction.peer() : rank,
          instruction.payload(),
          is_of_frozen ? -1 : stage_a,
          is_of_frozen ? -1 : stage_b,
          instruction.micro_batch(),
          is_of_frozen ? instruction.component() : -1,
          instruction.layers().begin(),
          instruction.samples().begin(),
          instruction.samples().end(),
          instruction.step_offset()};
}

// True for backward passes of the backbone, combined or split.
inline bool IsBackward(Instruction::Kind kind) {
  return kind == Instruction::BACKWARD || kind == Instruction::INPUT_GRAD ||
         kind == Instruction::WEIGHT_GRAD;
}

// True for backward passes that compute the gradient of the stage's inputs (to be sent to the
// previous stage), or of the stage's weights.
inline bool ComputesInputGrad(Instruction::Kind kind) {
  return kind == Instruction::BACKWARD || kind == Instruction::INPUT_GRAD;
}
inline bool ComputesWeightGrad(Instruction::Kind kind) {
  return kind == Instruction::BACKWARD || kind == Instruction::WEIGHT_GRAD;
}

// True if the device computes or loads its inputs meanwhile, rather than sends, waits or does
// bookkeeping.
inline bool IsBusy(Instruction::Kind kind) {
  switch (kind) {
    case Instruction::LOAD_BATCH:
    case Instruction::FORWARD:
    case Instruction::RECOMPUTE:
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD:
    case Instruction::FROZEN_FORWARD:
    case Instruction::OPTIMIZER_STEP:
      return true;
    default:
      return false;
  }
}

// Returns a name such as "unet", or "component 7" if the plan has no such component.
inline std::string ComponentName(const Plan& plan, int component) {
  if (component < 0 || component >= plan.components_size()) {
    return absl::StrCat("component ", component);
  }
  return plan.components(component).name();
}

}  // namespace dpipe

#endif  // DPIPE_CORE_PROTO_INSTRUCTION_PARTS_H_
