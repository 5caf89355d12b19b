#include "core/runtime/instruction_name.h"

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

std::string RangeName(const Range& range) {
  return absl::StrCat("[", range.begin(), ", ", range.end(), ")");
}

std::string ComponentName(const Plan& plan, int component) {
  if (component < 0 || component >= plan.components_size())
    return absl::StrCat("component ", component);
  return plan.components(component).name();
}

std::string MessageName(const Plan& plan, const Instruction& instruction) {
  const bool is_send = instruction.kind() == Instruction::SEND;
  std::string name = absl::StrCat(Instruction::Payload_Name(instruction.payload()), " of ");
  if (instruction.payload() == Instruction::FROZEN_OUTPUT) {
    absl::StrAppend(&name, ComponentName(plan, instruction.component()), ", samples ",
                    RangeName(instruction.samples()));
  } else {
    absl::StrAppend(&name, "micro-batch ", instruction.micro_batch());
  }
  return absl::StrCat(name, is_send ? " to" : " from", " rank ", instruction.peer());
}

}  // namespace

std::string InstructionName(const Plan& plan, const Instruction& instruction) {
  const std::string kind = Instruction::Kind_Name(instruction.kind());
  switch (instruction.kind()) {
    case Instruction::SEND:
    case Instruction::RECV:
      return absl::StrCat(kind, " of ", MessageName(plan, instruction));
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

}  // namespace dpipe
