#include "core/schedule/verification/instruction_fields.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

absl::Status Empty(const std::string& where, const char* field, int64_t value, int64_t empty) {
  if (value == empty) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      where, field, " is ", value, " but this kind does not use it; it must be ", empty));
}

absl::Status Within(const std::string& where, const char* field, int64_t value, int64_t count) {
  if (0 <= value && value < count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, field, " is ", value, " and must be in [0, ", count, ")"));
}

absl::Status RangeWithin(const std::string& where, const char* field, const Range& range,
                         int64_t count) {
  if (0 <= range.begin() && range.begin() < range.end() && range.end() <= count) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(where, field, " [", range.begin(), ", ",
                                                 range.end(), ") must be non-empty and within [0, ",
                                                 count, ")"));
}

// The fields that an instruction uses.
struct Uses {
  bool stage = false, component = false, micro_batch = false, samples = false, layers = false;
  bool peer = false, peer_stage = false, bytes = false, offset = false;
};

Uses UsesOf(const Instruction& instruction) {
  Uses uses;
  switch (instruction.kind()) {
    case Instruction::FORWARD:
    case Instruction::RECOMPUTE:
    case Instruction::BACKWARD:
    case Instruction::INPUT_GRAD:
    case Instruction::WEIGHT_GRAD:
      uses.stage = uses.micro_batch = uses.samples = uses.layers = true;
      break;
    case Instruction::LOAD_BATCH:
      uses.component = uses.samples = uses.offset = true;
      break;
    case Instruction::FROZEN_FORWARD:
      uses.component = uses.samples = uses.layers = uses.offset = true;
      break;
    case Instruction::GATHER_PARAMS:
    case Instruction::REDUCE_GRADS:
    case Instruction::SYNC_PARAMS:
      uses.stage = uses.layers = uses.bytes = true;
      break;
    case Instruction::RELEASE_PARAMS:
      uses.stage = uses.layers = true;
      break;
    case Instruction::FLUSH:
      uses.offset = true;
      break;
    case Instruction::SEND:
    case Instruction::RECV:
      uses.samples = uses.peer = uses.bytes = true;
      if (IsOfFrozen(instruction.payload())) {
        uses.component = uses.offset = true;
        uses.layers = instruction.payload() == Instruction::FROZEN_VALUES;
      } else {
        uses.stage = uses.peer_stage = uses.micro_batch = true;
      }
      break;
    default:
      break;
  }
  return uses;
}

absl::Status CheckKind(const std::string& where, const Instruction& instruction) {
  const bool message =
      instruction.kind() == Instruction::SEND || instruction.kind() == Instruction::RECV;
  const bool has_payload = instruction.payload() == Instruction::ACTIVATION ||
                           instruction.payload() == Instruction::GRADIENT ||
                           IsOfFrozen(instruction.payload());
  if (message && !has_payload)
    return absl::InvalidArgumentError(where + "the message has no payload");
  if (!message) DPIPE_RETURN_IF_ERROR(Empty(where, "payload", instruction.payload(), 0));
  switch (instruction.kind()) {
    case Instruction::KIND_UNSPECIFIED:
      return absl::InvalidArgumentError(where + "the instruction has no kind");
    default:
      return Instruction::Kind_IsValid(instruction.kind())
                 ? absl::OkStatus()
                 : absl::InvalidArgumentError(
                       absl::StrCat(where, "unknown kind ", static_cast<int>(instruction.kind())));
  }
}

absl::Status CheckStage(const std::string& where, const PlanShape& shape, int rank, int stage) {
  if (0 <= stage && stage < shape.num_stages() && shape.Holds(rank, stage)) {
    return absl::OkStatus();
  }
  std::string held;
  for (int s : shape.device_of(rank).stages) {
    absl::StrAppend(&held, held.empty() ? "" : ", ", s);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(where, "stage is ", stage, " but the rank holds ", held));
}

absl::Status CheckSamples(const std::string& where, const Plan& plan, const Uses& uses,
                          const Range& samples) {
  if (uses.samples) return RangeWithin(where, "samples", samples, plan.global_batch());
  DPIPE_RETURN_IF_ERROR(Empty(where, "samples.begin", samples.begin(), 0));
  return Empty(where, "samples.end", samples.end(), 0);
}

absl::Status CheckLayers(const std::string& where, const Plan& plan, const PlanShape& shape,
                         const Uses& uses, const Instruction& instruction) {
  if (!uses.layers) {
    DPIPE_RETURN_IF_ERROR(Empty(where, "layers.begin", instruction.layers().begin(), 0));
    return Empty(where, "layers.end", instruction.layers().end(), 0);
  }
  if (uses.component) {
    return RangeWithin(where, "layers", instruction.layers(),
                       plan.components(instruction.component()).num_layers());
  }
  const LayerRange layers = LayersIn(instruction);
  const LayerRange& held = shape.stage(instruction.stage()).layers;
  if (!layers.empty() && held.Contains(layers)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where, "layers ", layers.ToString(),
                                                 " must be non-empty and within the stage's ",
                                                 held.ToString()));
}

absl::Status CheckMicroBatch(const Plan& plan, const PlanShape& shape, const Uses& uses,
                             const Instruction& instruction, const std::string& where) {
  const bool updates = instruction.kind() == Instruction::OPTIMIZER_STEP && plan.has_relaxation();
  if (!uses.micro_batch && !updates) {
    return Empty(where, "micro_batch", instruction.micro_batch(), -1);
  }
  return Within(
      where, "micro_batch", instruction.micro_batch(),
      updates ? plan.num_micro_batches() : shape.stage(instruction.stage()).num_micro_batches);
}

absl::Status CheckFieldsOf(const Plan& plan, const PlanShape& shape, int rank,
                           const Instruction& instruction, const std::string& where) {
  DPIPE_RETURN_IF_ERROR(CheckKind(where, instruction));
  const Uses uses = UsesOf(instruction);
  DPIPE_RETURN_IF_ERROR(uses.stage ? CheckStage(where, shape, rank, instruction.stage())
                                   : Empty(where, "stage", instruction.stage(), -1));
  DPIPE_RETURN_IF_ERROR(
      uses.component ? Within(where, "component", instruction.component(), plan.components_size())
                     : Empty(where, "component", instruction.component(), -1));
  DPIPE_RETURN_IF_ERROR(CheckMicroBatch(plan, shape, uses, instruction, where));
  DPIPE_RETURN_IF_ERROR(uses.peer ? Within(where, "peer", instruction.peer(), plan.devices_size())
                                  : Empty(where, "peer", instruction.peer(), -1));
  DPIPE_RETURN_IF_ERROR(
      uses.peer_stage ? Within(where, "peer_stage", instruction.peer_stage(), shape.num_stages())
                      : Empty(where, "peer_stage", instruction.peer_stage(), -1));
  if (!uses.bytes) DPIPE_RETURN_IF_ERROR(Empty(where, "bytes", instruction.bytes(), 0));
  DPIPE_RETURN_IF_ERROR(uses.offset ? Within(where, "step_offset", instruction.step_offset(), 2)
                                    : Empty(where, "step_offset", instruction.step_offset(), 0));
  DPIPE_RETURN_IF_ERROR(CheckSamples(where, plan, uses, instruction.samples()));
  return CheckLayers(where, plan, shape, uses, instruction);
}

}  // namespace

absl::Status CheckFields(const Plan& plan, const PlanShape& shape, int rank, int index) {
  const Instruction& instruction = plan.devices(rank).instructions(index);
  // Builds the name, which is most of the work, only if there is an error.
  const absl::Status status = CheckFieldsOf(plan, shape, rank, instruction, "");
  if (status.ok()) return status;
  return CheckFieldsOf(plan, shape, rank, instruction, InstructionName(plan, rank, index));
}

}  // namespace dpipe
