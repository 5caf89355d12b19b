// Human-readable names of instructions.
#ifndef DPIPE_CORE_RUNTIME_INSTRUCTION_NAME_H_
#define DPIPE_CORE_RUNTIME_INSTRUCTION_NAME_H_

#include <string>

#include "core/proto/plan.pb.h"

namespace dpipe {

// Returns "FORWARD of micro-batch 3 on stage 1", "FROZEN_FORWARD of vae_encoder, layers [0, 9),
// samples [4, 8)", "RECV of GRADIENT of micro-batch 0 from rank 1".
std::string InstructionName(const Plan& plan, const Instruction& instruction);

// Returns the name of an awaited message or collective, for errors that name the peer themselves.
// `index` is the instruction's number in its rank's list. Examples: "ACTIVATION of micro-batch 3
// for stage 1 (RECV, instruction 15)", "REDUCE_GRADS of stage 0, layers [0, 9) (instruction 28)".
std::string AwaitedName(const Plan& plan, const Instruction& instruction, int index);

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_INSTRUCTION_NAME_H_
