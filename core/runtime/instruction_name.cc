#include "core/runtime/instruction_name.h"

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

std::string RangeName(const Range& range) {
  return absl::StrCat("[", range.begin(), ", ", range.end(), ")");
}

std::string MessageName(const Plan& plan, const Instruction& instruction) {
  const std::string payload = Instruction::Payload_Name(instruction.payload());
  if (IsOfFrozen(instruction.payload())) {
    const bool moves = instruction.payload() == Instruction::FROZEN_VALUES;
    return absl::StrCat(payload, " of ", ComponentName(plan, instruction.component()),
                        moves ? absl::StrCat(" for layer ", instruction.layers().begin()) : "",
                        ", samples ", RangeName(instruction.samples()));
  }
  return absl::StrCat(payload, " of micro-batch ", instruction.micro_batch());
}

}  // namespace

std::string InstructionName(const Plan& plan, const Instruction& instruction) {
  const std::string kind = Instruction::Kind_Name(instruction.kind());
  switch (instruction.kind()) {
    case Instruction::SEND:
    case Instruction::RECV:
      return absl::StrCat(kind, " of ", MessageName(plan, instruction),
                          instruction.kind() == Instruction::SEND ? " to" : " from", " rank ",
                          instruction.peer());
    case Instruction::LOAD_BATCH:
      return absl::StrCat(kind, " for ", ComponentName(plan, instruction.component()), ", samples ",
                          RangeName(instruction.samples()));
    case Instruction::FROZEN_FORWARD:
      return absl::StrCat(kind, " of ", ComponentName(plan, instruction.component()), ", layers ",
                          RangeName(instruction.layers()), ", samples ",
                          RangeName(instruction.samples()));
    case Instruction::FORWARD:
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD:
    case Instruction::RECOMPUTE:
      return absl::StrCat(kind, " of micro-batch ", instruction.micro_batch(), " on stage ",
                          instruction.stage());
    case Instruction::GATHER_PARAMS:
    case Instruction::RELEASE_PARAMS:
    case Instruction::REDUCE_GRADS:
    case Instruction::SYNC_PARAMS:
      return absl::StrCat(kind, " of stage ", instruction.stage(), ", layers ",
                          RangeName(instruction.layers()));
    default:
      return kind;
  }
}

std::string AwaitedName(const Plan& plan, const Instruction& instruction, int index) {
  if (!IsMessage(instruction)) {
    return absl::StrCat(InstructionName(plan, instruction), " (instruction ", index, ")");
  }
  std::string name = MessageName(plan, instruction);
  if (!IsOfFrozen(instruction.payload())) {
    const bool sends = instruction.kind() == Instruction::SEND;
    absl::StrAppend(&name, " for stage ", sends ? instruction.peer_stage() : instruction.stage());
  }
  return absl::StrCat(name, " (", Instruction::Kind_Name(instruction.kind()), ", instruction ",
                      index, ")");
}

}  // namespace dpipe
