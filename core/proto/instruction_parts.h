// What an instruction of a plan works on, and of which kind it is.
#ifndef DPIPE_CORE_PROTO_INSTRUCTION_PARTS_H_
#define DPIPE_CORE_PROTO_INSTRUCTION_PARTS_H_

#include <string>

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
// Of a pass on a stage, which may name none and mean the whole stage.
inline LayerRange LayersIn(const Instruction& instruction, LayerRange stage) {
  const LayerRange layers = LayersIn(instruction);
  return layers.empty() ? stage : layers;
}
inline SampleRange SamplesIn(const Instruction& instruction) {
  return {instruction.samples().begin(), instruction.samples().end()};
}

// SEND and RECV; collectives are not messages.
inline bool IsMessage(Instruction::Kind kind) {
  return kind == Instruction::SEND || kind == Instruction::RECV;
}
inline bool IsMessage(const Instruction& instruction) { return IsMessage(instruction.kind()); }

// A backward pass of the backbone, in one or as one of its halves.
inline bool IsBackward(Instruction::Kind kind) {
  return kind == Instruction::BACKWARD || kind == Instruction::INPUT_GRAD ||
         kind == Instruction::WEIGHT_GRAD;
}

// Backward passes that compute the gradient of the stage's inputs, which goes to the stage before,
// from that of its outputs; and those that compute that of its weights.
inline bool ComputesInputGrad(Instruction::Kind kind) {
  return kind == Instruction::BACKWARD || kind == Instruction::INPUT_GRAD;
}
inline bool ComputesWeightGrad(Instruction::Kind kind) {
  return kind == Instruction::BACKWARD || kind == Instruction::WEIGHT_GRAD;
}

// The device computes meanwhile, or loads its inputs; else it sends, waits or keeps books.
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

// "unet"; "component 7" where the plan has no such component.
inline std::string ComponentName(const Plan& plan, int component) {
  if (component < 0 || component >= plan.components_size()) {
    return absl::StrCat("component ", component);
  }
  return plan.components(component).name();
}

}  // namespace dpipe

#endif  // DPIPE_CORE_PROTO_INSTRUCTION_PARTS_H_
