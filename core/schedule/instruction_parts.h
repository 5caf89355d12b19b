// What an instruction works on, and whether it moves it.
#ifndef DPIPE_CORE_SCHEDULE_INSTRUCTION_PARTS_H_
#define DPIPE_CORE_SCHEDULE_INSTRUCTION_PARTS_H_

#include "core/base/range.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

inline LayerRange LayersIn(const Instruction& instruction) {
  return {instruction.layers().begin(), instruction.layers().end()};
}

inline SampleRange SamplesIn(const Instruction& instruction) {
  return {instruction.samples().begin(), instruction.samples().end()};
}

// SEND and RECV; collectives are none.
inline bool IsMessage(const Instruction& instruction) {
  return instruction.kind() == Instruction::SEND || instruction.kind() == Instruction::RECV;
}

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_INSTRUCTION_PARTS_H_
