// Forward and backward passes of the backbones' stages.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/proto/instruction_parts.h"
#include "core/runtime/interpreter/rank_executor.h"

namespace dpipe {
namespace {

// Returns the number of samples over which an update's gradient is the mean.
int SamplesPerUpdate(const Plan& plan) {
  return plan.has_relaxation()
             ? plan.relaxation().micro_batches_per_update() * plan.micro_batch_size()
             : plan.global_batch();
}

// Moves those of `ids` that are present from one map to another.
void MoveValues(const std::vector<ValueId>& ids, nn::ValueMap* from, nn::ValueMap* to) {
  for (ValueId id : ids) {
    auto node = from->extract(id);
    if (!node.empty()) to->insert(std::move(node));
  }
}

// Like MoveValues, but copies.
void CopyValues(const std::vector<ValueId>& ids, const nn::ValueMap& from, nn::ValueMap* to) {
  for (ValueId id : ids) {
    const auto it = from.find(id);
    if (it != from.end()) (*to)[id] = it->second;
  }
}

}  // namespace

// Waits for other ranks first; drawing inputs counts as the instruction's own work.
absl::Status RankExecutor::GatherInputs(const StageRoutes& stage, LayerRange layers, int64_t step,
                                        SampleRange samples, nn::ValueMap* values) {
  const nn::Component& backbone = component(stage.component);
  for (const ExternalInput& input : stage.inputs) {
    if (input.source >= 0) DPIPE_RETURN_IF_ERROR(ReceiveFrozen(input.source, step, samples));
  }
  MarkStart();
  const bool whole = layers == stage.layers;
  const std::vector<ValueId> read =
      whole ? std::vector<ValueId>() : backbone.program.InputsReadBy(layers);
  for (const ExternalInput& input : stage.inputs) {
    if (!whole && std::find(read.begin(), read.end(), input.id) == read.end()) continue;
    if (input.source < 0) {
      DPIPE_ASSIGN_OR_RETURN((*values)[input.id],
                             LoadOntoDevice(backbone.name, input.name, step, samples));
    } else {
      DPIPE_ASSIGN_OR_RETURN((*values)[input.id],
                             frozen_.Get(input.source, input.output, step, samples));
    }
  }
  // No estimate from an earlier lap: zeros.
  if (stage.self_conditioning != ValueId() && values->count(stage.self_conditioning) == 0) {
    const ValueId id = stage.self_conditioning;
    (*values)[id] = Tensor::Zeros(
        resources_.device, backbone.program.BatchShape(id, samples.size()),
        nn::ResolveElement(backbone.program.value(id).type.element, resources_.compute_dtype));
  }
  return absl::OkStatus();
}

// Waits for the messages that bring `values`, piece by piece, and joins the pieces in sample order.
absl::StatusOr<nn::ValueMap> RankExecutor::TakeMessages(std::vector<Incoming> incoming,
                                                        SampleRange samples,
                                                        const std::vector<ValueId>& values) {
  std::sort(incoming.begin(), incoming.end(),
            [](const Incoming& a, const Incoming& b) { return a.samples < b.samples; });
  std::vector<std::vector<Tensor>> pieces(values.size());
  int next = samples.begin;
  for (Incoming& part : incoming) {
    if (part.samples.begin != next) break;
    next = part.samples.end;
    DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, Await(part));
    for (size_t i = 0; i < values.size(); ++i) {
      pieces[i].push_back(tensors[i].ViewOn(resources_.device));
    }
  }
  if (next != samples.end) {
    return absl::FailedPreconditionError(
        absl::StrCat("the messages for samples ", samples.ToString(), " end at sample ", next));
  }
  nn::ValueMap joined;
  for (size_t i = 0; i < values.size(); ++i) joined[values[i]] = ConcatBatch(pieces[i]);
  return joined;
}

absl::StatusOr<nn::ValueMap> RankExecutor::TakeActivations(StageMicroBatch key,
                                                           SampleRange samples) {
  const StageRoutes& stage = routes(key.first);
  nn::ValueMap values;
  if (stage.previous_is_local) {
    auto node = handed_activations_.extract(key);
    if (node.empty()) {
      return absl::FailedPreconditionError("the stage before it has not run");
    }
    values = std::move(node.mapped());
  } else if (auto node = incoming_activations_.extract(key); !node.empty()) {
    DPIPE_ASSIGN_OR_RETURN(values,
                           TakeMessages(std::move(node.mapped()), samples, stage.activations_in));
  } else if (!stage.activations_in.empty()) {
    return absl::FailedPreconditionError("no activation was received for it");
  }
  if (stage.kept_reads.empty()) return values;
  const auto kept = kept_activations_.find({stage.lap, key.second});
  if (kept == kept_activations_.end()) {
    return absl::FailedPreconditionError(
        "values that this rank should have kept for it are missing");
  }
  for (const KeptRead& read : stage.kept_reads) {
    const auto value = kept->second.find(read.id);
    if (value == kept->second.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("value ", program(key.first).value(read.id).name, " was not kept for it"));
    }
    values[read.id] = value->second;
    if (read.is_last) kept->second.erase(value);
  }
  if (kept->second.empty()) kept_activations_.erase(kept);
  return values;
}

absl::Status RankExecutor::ForwardLayers(StageMicroBatch key, LayerRange layers, int64_t step,
                                         bool keep_state, MicroBatch* micro_batch) {
  DPIPE_RETURN_IF_ERROR(AwaitGathered(key.first, layers));
  DPIPE_RETURN_IF_ERROR(
      GatherInputs(routes(key.first), layers, step, micro_batch->samples, &micro_batch->values));
  KeptPass kept;
  PassCall call;
  call.program = &program(key.first);
  call.layers = layers;
  call.parameters = now().stage_parameters[key.first];
  call.options.compute_dtype = resources_.compute_dtype;
  call.values = &micro_batch->values;
  call.state = keep_state ? &kept.state : nullptr;
  DPIPE_RETURN_IF_ERROR(WithForwardWeights(key, step, *micro_batch,
                                           [&] { return RunPass(key.first, call, &kept.hold); }));
  if (keep_state) micro_batch->kept.push_back(std::move(kept));
  return absl::OkStatus();
}

// Runs a pass, recorded if possible. Sharded parameters are in a new place whenever they are
// gathered, and so is each version of a relaxed plan's parameters, so passes on these are not
// recorded.
absl::Status RankExecutor::RunPass(int stage, const PassCall& call, PassGraphs::Hold* hold) {
  const bool moves = stage >= 0 && (routes(stage).sharded || plan().has_relaxation());
  if (graphs_ == nullptr || moves) return dpipe::RunPass(call);
  return graphs_->Run(call, hold);
}

absl::Status RankExecutor::Forward(const Instruction& instruction, int64_t step) {
  const StageMicroBatch key(instruction.stage(), instruction.micro_batch());
  const StageRoutes& stage = routes(key.first);
  const LayerRange layers = LayersIn(instruction, stage.layers);
  if (layers.begin == stage.layers.begin) {
    if (micro_batches_.count(key) > 0) {
      return absl::FailedPreconditionError("this micro-batch is already in flight");
    }
    MicroBatch begun;
    begun.samples = SamplesIn(instruction);
    begun.forward_end = layers.begin;
    if (stashes()) begun.weight_version = versions_[key.first]->Pin();
    DPIPE_ASSIGN_OR_RETURN(begun.values, TakeActivations(key, begun.samples));
    micro_batches_.emplace(key, std::move(begun));
  }
  const auto it = micro_batches_.find(key);
  if (it == micro_batches_.end() || it->second.forward_end != layers.begin) {
    return absl::FailedPreconditionError(
        absl::StrCat("the layers before ", layers.begin, " have not had their forward pass"));
  }
  MicroBatch& micro_batch = it->second;
  if (stage.blocks.empty()) {
    DPIPE_RETURN_IF_ERROR(ForwardLayers(key, layers, step, !stage.forward_only, &micro_batch));
  }
  for (const RecomputedBlock& block : stage.blocks) {
    const LayerRange part = block.layers.Intersect(layers);
    if (part.empty()) continue;
    if (part.begin == block.layers.begin) {
      CopyValues(block.reads, micro_batch.values, &micro_batch.block_inputs);
    }
    DPIPE_RETURN_IF_ERROR(ForwardLayers(key, part, step, /*keep_state=*/false, &micro_batch));
  }
  micro_batch.forward_end = layers.end;
  if (layers.end == stage.layers.end) return FinishForward(key, &micro_batch);
  return absl::OkStatus();
}

// Passes on the values that later stages read, and drops the rest.
absl::Status RankExecutor::FinishForward(StageMicroBatch key, MicroBatch* micro_batch) {
  const StageRoutes& stage = routes(key.first);
  nn::ValueMap values = std::exchange(micro_batch->values, {});
  if (stage.ends_lap && !stage.forward_only) {
    device_losses_.push_back(
        {stage.backbone, micro_batch->samples, values[component(stage.component).loss()]});
    if (resources_.device->has_host_memory()) FetchLosses();  // no wait: they are computed
  }
  if (!stage.keeps.empty()) {
    CopyValues(stage.keeps, values, &kept_activations_[{stage.lap, key.second}]);
  }
  if (!stage.next_is_local) {
    MoveValues(stage.activations_out, &values, &micro_batch->values);
    if (!micro_batch->values.empty()) {
      micro_batch->activations_unsent = micro_batch->samples.size();
    }
  } else if (stage.ends_lap) {  // the estimate becomes the next lap's input
    handed_activations_[{stage.next, key.second}][routes(stage.next).activations_in[0]] =
        values[stage.activations_out[0]];
  } else {
    MoveValues(stage.activations_out, &values, &handed_activations_[{stage.next, key.second}]);
  }
  if (stage.forward_only) micro_batch->input_grad_done = micro_batch->weight_grad_done = true;
  Retire(key);
  return absl::OkStatus();
}

void RankExecutor::FetchLosses() {
  if (device_losses_.empty()) return;
  std::vector<Tensor> parts;
  for (const DeviceLosses& part : device_losses_) parts.push_back(part.losses);
  const Tensor all = ConcatBatch(parts).ToHost();  // a single wait for all
  absl::Span<const float> rest = all.span<float>();
  for (const DeviceLosses& part : device_losses_) {
    const absl::Span<const float> losses = rest.first(part.losses.num_elements());
    losses_.push_back({part.backbone, part.samples, {losses.begin(), losses.end()}});
    rest.remove_prefix(losses.size());
  }
  device_losses_.clear();
}

// Runs the forward pass of a block again, or of the next part of it, from its saved inputs. The
// bits are the same, because all randomness is drawn per sample.
absl::Status RankExecutor::Recompute(const Instruction& instruction, int64_t step) {
  const StageMicroBatch key(instruction.stage(), instruction.micro_batch());
  const StageRoutes& stage = routes(key.first);
  const LayerRange layers = LayersIn(instruction, stage.layers);
  const auto it = micro_batches_.find(key);
  if (it == micro_batches_.end() || it->second.forward_end != stage.layers.end) {
    return absl::FailedPreconditionError("its forward pass has not run");
  }
  MicroBatch& micro_batch = it->second;
  const auto block =
      std::find_if(stage.blocks.begin(), stage.blocks.end(),
                   [&](const RecomputedBlock& block) { return block.layers.Contains(layers); });
  if (block == stage.blocks.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("layers ", layers.ToString(), " are in none of its recomputed blocks"));
  }
  if (layers.begin == block->layers.begin) {
    CopyValues(block->reads, micro_batch.block_inputs, &micro_batch.recomputed);
    for (ValueId id : block->last_reads) micro_batch.block_inputs.erase(id);
  }
  // Values that are still to be sent are set aside.
  nn::ValueMap unsent =
      std::exchange(micro_batch.values, std::exchange(micro_batch.recomputed, {}));
  const absl::Status status = ForwardLayers(key, layers, step, /*keep_state=*/true, &micro_batch);
  nn::ValueMap values = std::exchange(micro_batch.values, std::move(unsent));
  if (layers.end < block->layers.end) micro_batch.recomputed = std::move(values);
  return status;
}

// Sets the first gradients of a backward pass: that of the loss, whose mean over the global batch
// is minimised, or those from later stages.
absl::Status RankExecutor::SeedBackward(StageMicroBatch key, MicroBatch* micro_batch) {
  const StageRoutes& stage = routes(key.first);
  if (stage.ends_lap) {
    const int count = micro_batch->samples.size();
    const float scale = 1.0f / static_cast<float>(SamplesPerUpdate(plan()));
    micro_batch->grads[component(stage.component).loss()] =
        Tensor::FromHost<float>(resources_.device, {count}, std::vector<float>(count, scale));
  } else if (stage.next_is_local) {
    auto node = handed_grads_.extract(key);
    if (node.empty())
      return absl::FailedPreconditionError("the stage after it has not run its backward pass");
    micro_batch->grads = std::move(node.mapped());
  } else if (auto node = incoming_grads_.extract(key); !node.empty()) {
    DPIPE_ASSIGN_OR_RETURN(
        micro_batch->grads,
        TakeMessages(std::move(node.mapped()), micro_batch->samples, stage.gradients_in));
  } else if (!stage.gradients_in.empty()) {
    return absl::FailedPreconditionError("no gradient was received for it");
  }
  if (!stage.kept_gradients_in.empty()) {
    auto kept = kept_grads_.extract({stage.lap, key.second});
    if (kept.empty()) {
      return absl::FailedPreconditionError("gradients that this rank should have kept are missing");
    }
    micro_batch->grads.merge(kept.mapped());
    DPIPE_CHECK(kept.mapped().empty()) << "a gradient that crosses is not kept";
  }
  micro_batch->seeded = true;
  return absl::OkStatus();
}

absl::Status RankExecutor::BackwardLayers(Instruction::Kind kind, LayerRange layers, int stage,
                                          MicroBatch* micro_batch) {
  nn::ParameterSet* parameters = now().stage_parameters[stage];
  if (routes(stage).sharded && kind != Instruction::INPUT_GRAD) parameters->AllocateGrads(layers);
  PassCall call;
  call.kind = kind == Instruction::BACKWARD     ? PassKind::kBackward
              : kind == Instruction::INPUT_GRAD ? PassKind::kInputGrad
                                                : PassKind::kWeightGrad;
  call.program = &program(stage);
  call.parameters = parameters;
  if (call.kind != PassKind::kWeightGrad) call.values = &micro_batch->grads;
  int covered = 0;  // layers
  for (auto kept = micro_batch->kept.rbegin(); kept != micro_batch->kept.rend(); ++kept) {
    call.layers = layers.Intersect(kept->state.layers());
    call.state = &kept->state;
    if (call.layers.empty()) continue;
    covered += call.layers.size();
    DPIPE_RETURN_IF_ERROR(WithBackwardWeights(stage, *micro_batch,
                                              [&] { return RunPass(stage, call, &kept->hold); }));
  }
  if (covered == layers.size()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("only ", covered, " of its ", layers.size(),
                                                    " layers kept state or are recomputed"));
}

absl::Status RankExecutor::WithForwardWeights(StageMicroBatch key, int64_t step,
                                              const MicroBatch& micro_batch,
                                              const std::function<absl::Status()>& pass) {
  if (!plan().has_relaxation()) return pass();
  WeightVersions& versions = *versions_[key.first];
  if (stashes()) return versions.RunWith(micro_batch.weight_version, pass);
  // The update of the step that this micro-batch belongs to, and how many updates come before it.
  const int per_update = plan().relaxation().micro_batches_per_update();
  const int own = key.second / per_update, ahead = own - updates_in_step_;
  const int64_t first_update = step * (plan().num_micro_batches() / per_update);
  // A prediction for an update's first micro-batch serves all of them.
  if (ahead == 0 && !versions.HasPredicted(first_update + own)) return pass();
  return versions.RunPredicted(
      first_update + own,
      [&](nn::ParameterSet* weights) {
        return optimizers_[0].second->Predict(step, ahead, weights);
      },
      pass);
}

absl::Status RankExecutor::WithBackwardWeights(int stage, const MicroBatch& micro_batch,
                                               const std::function<absl::Status()>& pass) {
  if (!stashes()) return pass();
  return versions_[stage]->RunWith(micro_batch.weight_version, pass);
}

absl::Status RankExecutor::BackwardPass(const Instruction& instruction) {
  const StageMicroBatch key(instruction.stage(), instruction.micro_batch());
  const auto it = micro_batches_.find(key);
  if (it == micro_batches_.end() || it->second.kept.empty()) {
    return absl::FailedPreconditionError(
        it == micro_batches_.end() ? "its forward pass has not run"
                                   : "its forward pass kept no state and was not recomputed");
  }
  MicroBatch& micro_batch = it->second;
  const LayerRange stage_layers = routes(key.first).layers;
  const LayerRange layers = LayersIn(instruction, stage_layers);
  if (!micro_batch.seeded) DPIPE_RETURN_IF_ERROR(SeedBackward(key, &micro_batch));
  DPIPE_RETURN_IF_ERROR(AwaitGathered(key.first, layers));
  MarkStart();
  DPIPE_RETURN_IF_ERROR(BackwardLayers(instruction.kind(), layers, key.first, &micro_batch));
  if (instruction.kind() != Instruction::WEIGHT_GRAD && layers.begin == stage_layers.begin) {
    FinishInputGrad(key, &micro_batch);
  }
  micro_batch.weight_grad_done =
      std::all_of(micro_batch.kept.begin(), micro_batch.kept.end(),
                  [](const KeptPass& kept) { return kept.state.finished(); });
  Retire(key);
  return absl::OkStatus();
}

// Passes gradients on to the previous stages.
void RankExecutor::FinishInputGrad(StageMicroBatch key, MicroBatch* micro_batch) {
  const StageRoutes& stage = routes(key.first);
  nn::ValueMap grads = std::exchange(micro_batch->grads, {});
  if (!stage.kept_gradients_out.empty()) {
    MoveValues(stage.kept_gradients_out, &grads, &kept_grads_[{stage.lap, key.second}]);
  }
  if (stage.lap != key.first && stage.previous_is_local) {
    MoveValues(stage.gradients_out, &grads, &handed_grads_[{stage.previous, key.second}]);
  } else {
    MoveValues(stage.gradients_out, &grads, &micro_batch->grads);
    if (!micro_batch->grads.empty()) micro_batch->grads_unsent = micro_batch->samples.size();
  }
  micro_batch->input_grad_done = true;
}

void RankExecutor::Retire(StageMicroBatch key) {
  const auto it = micro_batches_.find(key);
  if (it == micro_batches_.end()) return;
  const MicroBatch& m = it->second;
  if (m.input_grad_done && m.weight_grad_done && m.grads_unsent == 0 && m.activations_unsent == 0) {
    if (stashes()) versions_[key.first]->Unpin(m.weight_version);
    micro_batches_.erase(it);
  }
}

}  // namespace dpipe
