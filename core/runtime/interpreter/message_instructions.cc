// Sending and receiving: activations, gradients, outputs of frozen components.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/proto/instruction_parts.h"
#include "core/runtime/instruction_name.h"
#include "core/runtime/interpreter/rank_executor.h"

namespace dpipe {
namespace {

// Messages between two ranks are distinguished by their contents, never by the time of sending.
// Both sides compute the same tag: `boundary` is the later of the two stages.
int64_t MessageTag(const Instruction& instruction) {
  const int64_t boundary = std::max(instruction.stage(), instruction.peer_stage());
  const int64_t what = instruction.payload() == Instruction::FROZEN_OUTPUT
                           ? static_cast<int64_t>(instruction.component())
                           : boundary << 20 | static_cast<int64_t>(instruction.micro_batch());
  return static_cast<int64_t>(instruction.payload()) << 60 |
         (what & ((int64_t{1} << 36) - 1)) << 24 |
         (static_cast<int64_t>(instruction.samples().begin()) & 0xffffff);
}

// Returns an instruction's samples relative to the first sample of the micro-batch that holds them.
absl::StatusOr<SampleRange> RowsOf(const Instruction& instruction, SampleRange held) {
  const SampleRange samples = SamplesIn(instruction);
  if (!held.Contains(samples)) {
    return absl::FailedPreconditionError(
        absl::StrCat("samples ", samples.ToString(), " of a micro-batch with ", held.ToString()));
  }
  return SampleRange{samples.begin - held.begin, samples.end - held.begin};
}

}  // namespace

RankExecutor::Prepared RankExecutor::Prepare(const Instruction& instruction) const {
  Prepared prepared;
  prepared.name = InstructionName(plan(), instruction);
  if (instruction.kind() == Instruction::SEND || instruction.kind() == Instruction::RECV) {
    prepared.tag = MessageTag(instruction);
    for (const nn::Model* model : resources_.models) {
      if (instruction.kind() != Instruction::RECV) break;
      prepared.specs.push_back(PayloadSpecs(instruction, *model));
    }
  } else if (instruction.kind() == Instruction::REDUCE_GRADS ||
             instruction.kind() == Instruction::GATHER_PARAMS) {
    PrepareCollective(instruction, &prepared);
  } else if (instruction.kind() == Instruction::SYNC_PARAMS) {
    prepared.group = ReductionGroup(instruction);
  }
  return prepared;
}

absl::StatusOr<std::vector<Tensor>> RankExecutor::BoundaryPayload(const Instruction& instruction) {
  const StageMicroBatch key(instruction.stage(), instruction.micro_batch());
  const bool forward = instruction.payload() == Instruction::ACTIVATION;
  const std::vector<ValueId>& ids =
      forward ? routes(key.first).activations_out : routes(key.first).gradients_out;
  std::vector<Tensor> tensors;
  if (ids.empty()) return tensors;  // only signals that the stage has reached this point
  const auto it = micro_batches_.find(key);
  if (it == micro_batches_.end()) {
    return absl::FailedPreconditionError("this micro-batch is not in flight");
  }
  MicroBatch& micro_batch = it->second;
  int& unsent = forward ? micro_batch.activations_unsent : micro_batch.grads_unsent;
  if (unsent == 0) {
    return absl::FailedPreconditionError(
        forward ? "it has not been computed, or was already sent"
                : "its gradient has not been computed, or was already sent");
  }
  nn::ValueMap& values = forward ? micro_batch.values : micro_batch.grads;
  DPIPE_ASSIGN_OR_RETURN(const SampleRange rows, RowsOf(instruction, micro_batch.samples));
  for (ValueId id : ids) {
    const auto value = values.find(id);
    if (value == values.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("value ", program(key.first).value(id).name, " is missing"));
    }
    tensors.push_back(value->second.Slice(rows.begin, rows.end));
  }
  unsent -= rows.size();
  if (unsent == 0) values.clear();
  Retire(key);
  return tensors;
}

absl::StatusOr<std::vector<Tensor>> RankExecutor::FrozenPayload(const Instruction& instruction,
                                                                int64_t step) {
  std::vector<Tensor> tensors;
  const nn::Program& program = component(instruction.component()).program;
  for (ValueId id : program.outputs()) {
    for (int begin = instruction.samples().begin(); begin < instruction.samples().end();
         begin += frozen_.quantum()) {
      DPIPE_ASSIGN_OR_RETURN(
          tensors.emplace_back(),
          frozen_.GetQuantum(instruction.component(), program.value(id).name, step, begin));
    }
  }
  return tensors;
}

absl::Status RankExecutor::Send(const Instruction& instruction, int64_t step) {
  std::vector<Tensor> tensors;
  if (instruction.payload() == Instruction::FROZEN_OUTPUT) {
    DPIPE_ASSIGN_OR_RETURN(tensors, FrozenPayload(instruction, step));
  } else {
    DPIPE_ASSIGN_OR_RETURN(tensors, BoundaryPayload(instruction));
  }
  const Prepared& prepared = prepared_now();
  return resources_.communicator->Send(Rank(instruction.peer()), prepared.tag, std::move(tensors),
                                       prepared.awaited);
}

std::vector<TensorSpec> RankExecutor::PayloadSpecs(const Instruction& instruction,
                                                   const nn::Model& model) const {
  const SampleRange samples = SamplesIn(instruction);
  std::vector<TensorSpec> specs;
  auto add = [&](const nn::Program& program, ValueId id, int batch) {
    specs.push_back({program.BatchShape(id, batch),
                     nn::ResolveElement(program.value(id).type.element, resources_.compute_dtype)});
  };
  if (instruction.payload() == Instruction::FROZEN_OUTPUT) {
    const nn::Program& program = model.component(instruction.component()).program;
    for (ValueId id : program.outputs()) {
      for (int begin = samples.begin; begin < samples.end; begin += frozen_.quantum()) {
        add(program, id, frozen_.QuantumAt(begin, samples).size());
      }
    }
    return specs;
  }
  const StageRoutes& stage = routes(instruction.stage());
  const bool forward = instruction.payload() == Instruction::ACTIVATION;
  for (ValueId id : forward ? stage.activations_in : stage.gradients_in) {
    add(model.component(stage.component).program, id, samples.size());
  }
  return specs;
}

absl::Status RankExecutor::PostRecv(const Instruction& instruction, int64_t step) {
  const Prepared& prepared = prepared_now();
  DPIPE_ASSIGN_OR_RETURN(auto message, resources_.communicator->PostRecv(
                                           Rank(instruction.peer()), prepared.tag,
                                           prepared.specs[current_model_], prepared.awaited));
  Incoming incoming{SamplesIn(instruction), std::move(message)};
  const StageMicroBatch key(instruction.stage(), instruction.micro_batch());
  switch (instruction.payload()) {
    case Instruction::FROZEN_OUTPUT:
      incoming_frozen_[{step, instruction.component()}].push_back(std::move(incoming));
      break;
    case Instruction::ACTIVATION:
      incoming_activations_[key].push_back(std::move(incoming));
      break;
    default:
      incoming_grads_[key].push_back(std::move(incoming));
  }
  return absl::OkStatus();
}

}  // namespace dpipe
