// Sending and receiving: activations, gradients, outputs and values of frozen components.
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
  // Only messages of frozen values name layers.
  const int64_t what = IsOfFrozen(instruction.payload())
                           ? static_cast<int64_t>(instruction.layers().begin()) << 16 |
                                 static_cast<int64_t>(instruction.component())
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

// Returns the values that samples take along when another rank continues with layer `cut`: those
// that later layers read, and outputs so far.
std::vector<ValueId> MovedValues(const nn::Program& program, int cut) {
  std::vector<ValueId> ids;
  for (int v = 0; v < program.num_values(); ++v) {
    const nn::ValueInfo& value = program.value(ValueId(v));
    if (value.is_external() || value.layer >= cut) continue;
    if (value.last_layer >= cut || value.is_output) ids.emplace_back(v);
  }
  return ids;
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

absl::StatusOr<std::vector<Tensor>> RankExecutor::TakeFrozenValues(const Instruction& instruction,
                                                                   int64_t step) {
  const int index = instruction.component();
  const nn::Program& program = component(index).program;
  const std::vector<ValueId> ids = MovedValues(program, instruction.layers().begin());
  std::vector<Tensor> tensors;
  for (int begin = instruction.samples().begin(); begin < instruction.samples().end();
       begin += frozen_.quantum()) {
    const auto chain = frozen_values_.find({step, index, begin});
    for (ValueId id : ids) {
      if (chain == frozen_values_.end() || chain->second.count(id) == 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("value ", program.value(id).name, " is missing for sample ", begin));
      }
      tensors.push_back(chain->second[id]);
    }
    if (chain != frozen_values_.end()) frozen_values_.erase(chain);
  }
  return tensors;
}

absl::Status RankExecutor::Send(const Instruction& instruction, int64_t step) {
  std::vector<Tensor> tensors;
  if (instruction.payload() == Instruction::FROZEN_OUTPUT) {
    DPIPE_ASSIGN_OR_RETURN(tensors, FrozenPayload(instruction, step));
  } else if (instruction.payload() == Instruction::FROZEN_VALUES) {
    DPIPE_ASSIGN_OR_RETURN(tensors, TakeFrozenValues(instruction, step));
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
  if (instruction.payload() == Instruction::FROZEN_VALUES) {
    const nn::Program& program = model.component(instruction.component()).program;
    for (int begin = samples.begin; begin < samples.end; begin += frozen_.quantum()) {
      for (ValueId id : MovedValues(program, instruction.layers().begin())) {
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
  Incoming incoming{current_instruction_, step - instruction.step_offset(), SamplesIn(instruction),
                    std::move(message)};
  const StageMicroBatch key(instruction.stage(), instruction.micro_batch());
  switch (instruction.payload()) {
    case Instruction::FROZEN_OUTPUT:
      incoming_frozen_[{step, instruction.component()}].push_back(std::move(incoming));
      break;
    case Instruction::FROZEN_VALUES:
      incoming_values_[{step, instruction.component(), instruction.layers().begin()}].push_back(
          std::move(incoming));
      break;
    case Instruction::ACTIVATION:
      incoming_activations_[key].push_back(std::move(incoming));
      break;
    default:
      incoming_grads_[key].push_back(std::move(incoming));
  }
  return absl::OkStatus();
}

// The event is the wait. It has the time of the message if this rank waited for it; a message that
// was already there takes none.
absl::StatusOr<std::vector<Tensor>> RankExecutor::Await(const Incoming& incoming) {
  const Nanos begin_ns = resources_.clock->Now();
  const std::shared_ptr<DeviceEvent> begin = DeviceNow();
  DPIPE_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, incoming.message->Wait());
  AddEvent(incoming.instruction, incoming.step, TraceEvent::RECV_STREAM, begin_ns,
           resources_.clock->Now());
  if (begin != nullptr) device_times_.push_back({events_.size() - 1, begin, DeviceNow()});
  return tensors;
}

// Waits for those messages with values for `layer` that contain any of `samples`.
absl::Status RankExecutor::ReceiveFrozenValues(int index, int layer, int64_t step,
                                               SampleRange samples) {
  const auto it = incoming_values_.find({step, index, layer});
  if (it == incoming_values_.end()) return absl::OkStatus();
  const nn::Program& program = component(index).program;
  std::vector<Incoming> later;
  for (Incoming& part : it->second) {
    if (part.samples.Intersect(samples).empty()) {
      later.push_back(std::move(part));
      continue;
    }
    DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, Await(part));
    size_t next = 0;
    for (int begin = part.samples.begin; begin < part.samples.end; begin += frozen_.quantum()) {
      for (ValueId id : MovedValues(program, layer)) {
        const Tensor value = tensors[next++].ViewOn(resources_.device);
        frozen_values_[{step, index, begin}][id] = value;
        if (!program.value(id).is_output) continue;
        frozen_.Put(index, program.value(id).name, step, begin, value);
      }
    }
  }
  if (later.empty()) {
    incoming_values_.erase(it);
  } else {
    it->second = std::move(later);
  }
  return absl::OkStatus();
}

}  // namespace dpipe
