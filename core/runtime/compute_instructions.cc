// Forward and backward passes of the backbone's stages.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/runtime/rank_executor.h"

namespace dpipe {
namespace {

SampleRange SamplesOf(const Instruction& instruction) {
  return {instruction.samples().begin(), instruction.samples().end()};
}

}  // namespace

// Waiting for other ranks comes first; the work of drawing inputs counts as the instruction's own.
absl::Status RankExecutor::GatherInputs(LayerRange layers, int64_t step, SampleRange samples,
                                        nn::ValueMap* values) {
  const nn::Component& component = resources_.model->backbone();
  const std::vector<ValueId> ids = component.program.InputsReadBy(layers);
  auto source_of = [&](ValueId id) {
    return component.sources.find(component.program.value(id).name);
  };
  for (ValueId id : ids) {
    if (source_of(id) == component.sources.end()) continue;
    const int from = resources_.model->FindComponent(source_of(id)->second.component);
    DPIPE_RETURN_IF_ERROR(ReceiveFrozen(from, step, samples));
  }
  MarkStart();
  for (ValueId id : ids) {
    const auto source = source_of(id);
    if (source == component.sources.end()) {
      DPIPE_ASSIGN_OR_RETURN(
          (*values)[id], resources_.inputs->Load(component.name, component.program.value(id).name,
                                                 step, samples, resources_.device));
    } else {
      const int from = resources_.model->FindComponent(source->second.component);
      DPIPE_ASSIGN_OR_RETURN((*values)[id],
                             frozen_.Get(from, source->second.output, step, samples));
    }
  }
  return absl::OkStatus();
}

// Waits for the messages that bring `values`, piece by piece, and joins the pieces in sample order.
absl::StatusOr<nn::ValueMap> RankExecutor::TakeMessages(std::vector<Incoming> incoming,
                                                        const std::vector<ValueId>& values) {
  std::sort(incoming.begin(), incoming.end(),
            [](const Incoming& a, const Incoming& b) { return a.samples < b.samples; });
  std::vector<std::vector<Tensor>> pieces(values.size());
  for (Incoming& part : incoming) {
    DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, part.message->Wait());
    for (size_t i = 0; i < values.size(); ++i) pieces[i].push_back(tensors[i]);
  }
  nn::ValueMap joined;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!pieces[i].empty()) joined[values[i]] = ConcatBatch(pieces[i]);
  }
  return joined;
}

absl::Status RankExecutor::Forward(const Instruction& instruction, int64_t step) {
  const StageMicroBatch key(instruction.stage(), instruction.micro_batch());
  const LayerRange layers = LayersOf(instruction.stage());
  const SampleRange samples = SamplesOf(instruction);
  nn::ValueMap values;
  if (layers.begin > 0) {
    auto node = incoming_activations_.extract(key);
    if (node.empty()) return absl::FailedPreconditionError("no activation was received for it");
    DPIPE_ASSIGN_OR_RETURN(values,
                           TakeMessages(std::move(node.mapped()), backbone().LiveAt(layers.begin)));
  }
  DPIPE_RETURN_IF_ERROR(GatherInputs(layers, step, samples, &values));

  MicroBatch micro_batch;
  micro_batch.samples = samples;
  nn::RunOptions options;
  options.compute_dtype = resources_.compute_dtype;
  DPIPE_RETURN_IF_ERROR(nn::Forward(backbone(), layers,
                                    *resources_.stage_parameters[instruction.stage()], options,
                                    &values, &micro_batch.state));
  if (IsLastStage(instruction.stage())) {
    RecordLosses(values[backbone().outputs()[0]], samples);
  } else {
    for (ValueId id : backbone().LiveAt(layers.end)) {
      micro_batch.activations[id] = std::move(values[id]);
    }
    micro_batch.activations_unsent = samples.size();
  }
  if (!micro_batches_.emplace(key, std::move(micro_batch)).second) {
    return absl::FailedPreconditionError("this micro-batch is already in flight");
  }
  return absl::OkStatus();
}

void RankExecutor::RecordLosses(const Tensor& losses, SampleRange samples) {
  const float* values = losses.data<float>();
  losses_.push_back({samples, std::vector<float>(values, values + samples.size())});
}

// The backward pass starts from the loss, whose mean over the global batch is what is minimised, or
// from the gradients that the next stage has sent.
absl::Status RankExecutor::SeedBackward(const Instruction& instruction, MicroBatch* micro_batch) {
  if (IsLastStage(instruction.stage())) {
    Tensor seed = Tensor::Empty(resources_.device, {micro_batch->samples.size()}, DType::kF32);
    const float scale = 1.0f / static_cast<float>(resources_.plan->global_batch());
    std::fill_n(seed.data<float>(), seed.num_elements(), scale);
    micro_batch->grads[backbone().outputs()[0]] = seed;
  } else {
    auto node = incoming_grads_.extract({instruction.stage(), instruction.micro_batch()});
    if (node.empty()) return absl::FailedPreconditionError("no gradient was received for it");
    DPIPE_ASSIGN_OR_RETURN(micro_batch->grads,
                           TakeMessages(std::move(node.mapped()),
                                        backbone().GradientsAt(LayersOf(instruction.stage()).end)));
  }
  micro_batch->seeded = true;
  MarkStart();
  return absl::OkStatus();
}

absl::Status RankExecutor::BackwardPass(const Instruction& instruction, int64_t step) {
  const StageMicroBatch key(instruction.stage(), instruction.micro_batch());
  const auto it = micro_batches_.find(key);
  if (it == micro_batches_.end()) {
    return absl::FailedPreconditionError("its forward pass has not run");
  }
  MicroBatch& micro_batch = it->second;
  if (!micro_batch.seeded) DPIPE_RETURN_IF_ERROR(SeedBackward(instruction, &micro_batch));

  const LayerRange stage_layers = LayersOf(instruction.stage());
  LayerRange layers{instruction.layers().begin(), instruction.layers().end()};
  if (layers.empty()) layers = stage_layers;
  nn::ParameterSet* parameters = resources_.stage_parameters[instruction.stage()];
  switch (instruction.kind()) {
    case Instruction::BACKWARD:
      DPIPE_RETURN_IF_ERROR(
          nn::Backward(backbone(), layers, parameters, &micro_batch.state, &micro_batch.grads));
      break;
    case Instruction::INPUT_GRAD:
      DPIPE_RETURN_IF_ERROR(
          nn::InputGrad(backbone(), layers, *parameters, &micro_batch.state, &micro_batch.grads));
      break;
    default:
      DPIPE_RETURN_IF_ERROR(nn::WeightGrad(backbone(), layers, parameters, &micro_batch.state));
  }
  const bool reaches_front = layers.begin == stage_layers.begin;
  if (instruction.kind() != Instruction::WEIGHT_GRAD && reaches_front) {
    micro_batch.input_grad_done = true;
    if (stage_layers.begin > 0) {
      micro_batch.grads_unsent = micro_batch.samples.size();
    } else {
      micro_batch.grads.clear();
    }
  }
  micro_batch.weight_grad_done = micro_batch.state.finished();
  Retire(key);
  return absl::OkStatus();
}

void RankExecutor::Retire(StageMicroBatch key) {
  const auto it = micro_batches_.find(key);
  if (it == micro_batches_.end()) return;
  const MicroBatch& m = it->second;
  if (m.input_grad_done && m.weight_grad_done && m.grads_unsent == 0 && m.activations_unsent == 0) {
    micro_batches_.erase(it);
  }
}

}  // namespace dpipe
