#include "core/schedule/verification/stage_ledger.h"

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/messages/param_gathers.h"

namespace dpipe {
absl::Status CheckBytes(const InstructionAt& at, const Instruction& instruction, int64_t expected) {
  if (instruction.bytes() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(at.Name(), "bytes is ", instruction.bytes(), " and must be ", expected));
}

StageLedger::StageLedger(const PlanShape& shape, const CostModel& cost, int rank)
    : shape_(shape), cost_(cost), rank_(rank), gathered_(cost.num_components()) {
  for (int s : shape.device_of(rank).stages) {
    StageState& state = states_.emplace_back();
    state.stage = s;
    state.shape = &shape.stage(s);
    state.share = shape.SamplesOf(rank, s, 0).size();
    const int count = state.shape->num_micro_batches;
    const size_t num_layers = static_cast<size_t>(state.shape->layers.size());
    state.forward_layer.assign(count, state.shape->layers.begin);
    if (!state.shape->blocks.empty()) {
      state.blocks_left.assign(count, static_cast<int>(state.shape->blocks.size()));
      state.recomputed_layer.assign(count, state.shape->blocks.back().begin);
    }
    state.gradient_layer.assign(count, state.shape->layers.end);
    if (state.shape->previous >= 0 && !state.shape->local_previous) {
      state.activations.samples.assign(static_cast<size_t>(count) * state.share, 0);
    }
    if (state.shape->next >= 0 && !state.shape->local_next && !state.shape->forward_only) {
      state.gradients.samples.assign(static_cast<size_t>(count) * state.share, 0);
    }
    state.activations.count.assign(count, 0);
    state.gradients.count.assign(count, 0);
    if (state.shape->sharded) {
      gathered_[state.shape->component].resize(cost.num_layers(state.shape->component), 0);
    }
    state.next_weight.assign(num_layers, 0);
    state.reduced.assign(num_layers, 0);
  }
}

StageLedger::StageState& StageLedger::StateOf(int stage) {
  size_t i = 0;
  while (states_[i].stage != stage) ++i;
  return states_[i];
}

absl::Status StageLedger::CheckSamples(const InstructionAt& at, const Instruction& pass) const {
  const SampleRange own = shape_.SamplesOf(rank_, pass.stage(), pass.micro_batch());
  if (SamplesIn(pass) == own) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(at.Name(), "samples ", SamplesIn(pass).ToString(),
                                                 " of micro-batch ", pass.micro_batch(),
                                                 "; this rank's are ", own.ToString()));
}

absl::Status StageLedger::CheckForward(const InstructionAt& at, const Instruction& pass,
                                       const StageState& state, LayerRange all,
                                       int next_layer) const {
  const LayerRange layers = LayersIn(pass);
  const char* const what = all == state.shape->layers ? "stage" : "block";
  if (!state.shape->sharded && layers != all) {
    return absl::InvalidArgumentError(absl::StrCat(at.Name(), "layers ", layers.ToString(),
                                                   " must be all of the ", what, "'s ",
                                                   all.ToString()));
  }
  if (layers.end > all.end) {
    return absl::InvalidArgumentError(absl::StrCat(at.Name(), "layers ", layers.ToString(),
                                                   " go beyond the ", what, "'s ", all.ToString()));
  }
  if (layers.begin != next_layer) {
    return absl::InvalidArgumentError(absl::StrCat(at.Name(), "layers ", layers.ToString(),
                                                   " of micro-batch ", pass.micro_batch(),
                                                   ", whose next layer is ", next_layer));
  }
  return CheckGathered(at, pass, state);
}

absl::Status StageLedger::CheckGathered(const InstructionAt& at, const Instruction& pass,
                                        const StageState& state) const {
  if (!state.shape->sharded) return absl::OkStatus();
  const std::vector<uint8_t>& gathered = gathered_[state.shape->component];
  for (int l = pass.layers().begin(); l < pass.layers().end(); ++l) {
    if (gathered[l]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "the parameters of layer ", l, " are not gathered"));
  }
  return absl::OkStatus();
}

absl::Status StageLedger::CheckReceived(const InstructionAt& at, const char* what,
                                        const Received& received, const StageState& state,
                                        int micro_batch) const {
  const int count = received.count[micro_batch];
  if (count == state.share) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(at.Name(), what, " of ", count, " of the ",
                                                 state.share, " samples of micro-batch ",
                                                 micro_batch, " have been received"));
}

absl::Status StageLedger::Forward(const InstructionAt& at, const Instruction& pass) {
  StageState& state = StateOf(pass.stage());
  const int m = pass.micro_batch();
  DPIPE_RETURN_IF_ERROR(CheckSamples(at, pass));
  if (IsForward(state, m)) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "a second forward pass of micro-batch ", m));
  }
  DPIPE_RETURN_IF_ERROR(CheckForward(at, pass, state, state.shape->layers, state.forward_layer[m]));
  if (state.shape->local_previous && !IsForward(StateOf(state.shape->previous), m)) {
    return absl::InvalidArgumentError(absl::StrCat(at.Name(), "stage ", state.shape->previous,
                                                   " of this rank has not computed micro-batch ",
                                                   m));
  }
  if (state.shape->previous >= 0 && !state.shape->local_previous) {
    DPIPE_RETURN_IF_ERROR(CheckReceived(at, "activations", state.activations, state, m));
  }
  state.forward_layer[m] = LayersIn(pass).end;
  return absl::OkStatus();
}

absl::Status StageLedger::Recompute(const InstructionAt& at, const Instruction& pass) {
  StageState& state = StateOf(pass.stage());
  const int m = pass.micro_batch();
  DPIPE_RETURN_IF_ERROR(CheckSamples(at, pass));
  if (state.shape->blocks.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        at.Name(), "stage ", pass.stage(), " keeps its activations, so it does not recompute"));
  }
  if (!IsForward(state, m)) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "micro-batch ", m, " has had no forward pass"));
  }
  int& left = state.blocks_left[m];
  if (left == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "micro-batch ", m, " has already been recomputed"));
  }
  int& next_layer = state.recomputed_layer[m];
  DPIPE_RETURN_IF_ERROR(CheckForward(at, pass, state, state.shape->blocks[left - 1], next_layer));
  next_layer = LayersIn(pass).end;
  if (next_layer < state.shape->blocks[left - 1].end) return absl::OkStatus();
  if (--left > 0) next_layer = state.shape->blocks[left - 1].begin;
  return absl::OkStatus();
}

absl::Status StageLedger::CheckActivations(const InstructionAt& at, const StageState& state,
                                           int micro_batch, int layer) const {
  if (!IsForward(state, micro_batch)) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "micro-batch ", micro_batch, " has had no forward pass"));
  }
  const std::vector<LayerRange>& blocks = state.shape->blocks;
  const int left = blocks.empty() ? 0 : state.blocks_left[micro_batch];
  if (left == 0 || layer >= blocks[left - 1].end) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(at.Name(), "micro-batch ", micro_batch, " is not recomputed",
                   blocks.size() == 1 ? "" : absl::StrCat(" from layer ", layer, " on")));
}

absl::Status StageLedger::InputGrad(const InstructionAt& at, const Instruction& pass) {
  StageState& state = StateOf(pass.stage());
  const int m = pass.micro_batch();
  if (state.shape->forward_only) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "stage ", pass.stage(), " is forward-only"));
  }
  const LayerRange layers = LayersIn(pass);
  DPIPE_RETURN_IF_ERROR(CheckSamples(at, pass));
  DPIPE_RETURN_IF_ERROR(CheckActivations(at, state, m, layers.begin));
  DPIPE_RETURN_IF_ERROR(CheckGathered(at, pass, state));
  if (layers.end != state.gradient_layer[m]) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "layers ", layers.ToString(), ", but gradients of micro-batch ", m,
                     " have reached layer ", state.gradient_layer[m]));
  }
  if (layers.end == state.shape->layers.end && state.shape->next >= 0) {
    if (!state.shape->local_next) {
      DPIPE_RETURN_IF_ERROR(CheckReceived(at, "gradients", state.gradients, state, m));
    } else {
      const StageState& next = StateOf(state.shape->next);
      if (next.gradient_layer[m] != next.shape->layers.begin) {
        return absl::InvalidArgumentError(
            absl::StrCat(at.Name(), "gradients of micro-batch ", m, " in stage ", next.stage,
                         " of this rank have reached layer ", next.gradient_layer[m], ", not to ",
                         next.shape->layers.begin));
      }
    }
  }
  state.gradient_layer[m] = layers.begin;
  return absl::OkStatus();
}

absl::Status StageLedger::WeightGrad(const InstructionAt& at, const Instruction& pass) {
  StageState& state = StateOf(pass.stage());
  const int m = pass.micro_batch();
  DPIPE_RETURN_IF_ERROR(CheckSamples(at, pass));
  DPIPE_RETURN_IF_ERROR(CheckGathered(at, pass, state));
  const LayerRange layers = LayersIn(pass);
  if (layers.begin < state.gradient_layer[m]) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "layers ", layers.ToString(), ", but gradients of micro-batch ", m,
                     " have reached layer ", state.gradient_layer[m]));
  }
  for (int l = layers.begin; l < layers.end; ++l) {
    int& next = state.next_weight[l - state.shape->layers.begin];
    if (next != m) {
      return absl::InvalidArgumentError(absl::StrCat(at.Name(), "layer ", l,
                                                     " adds the weight gradient of micro-batch ", m,
                                                     "; next in order is ", next));
    }
    ++next;
  }
  return absl::OkStatus();
}

// Checks that a message goes to, or comes from, a neighbour in the chain on other ranks, and has
// the right size.
absl::Status StageLedger::CheckRoute(const InstructionAt& at, const Instruction& message,
                                     const StageState& state) const {
  const bool activation = message.payload() == Instruction::ACTIVATION;
  const bool to_next = (message.kind() == Instruction::SEND) == activation;
  const StageShape& stage = *state.shape;
  const int other = to_next ? stage.next : stage.previous;
  if (other < 0 || message.peer_stage() != other || !shape_.Holds(message.peer(), other)) {
    return absl::InvalidArgumentError(absl::StrCat(at.Name(), "peer ", message.peer(),
                                                   " of peer_stage ", message.peer_stage(),
                                                   "; the neighbour is stage ", other));
  }
  if (to_next ? stage.local_next : stage.local_previous) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "stages ", state.stage, " and ", other,
                     " are on the same rank and exchange no messages"));
  }
  const StageShape& front = to_next ? stage : shape_.stage(other);
  if (!activation && front.forward_only) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "a forward-only stage receives no gradient"));
  }
  const int front_stage = to_next ? state.stage : other;
  const int64_t per_sample =
      activation ? shape_.ForwardBytes(front_stage) : shape_.GradientBytes(front_stage + 1);
  return CheckBytes(at, message, per_sample * SamplesIn(message).size());
}

absl::Status StageLedger::Message(const InstructionAt& at, const Instruction& message) {
  StageState& state = StateOf(message.stage());
  const int m = message.micro_batch();
  const bool activation = message.payload() == Instruction::ACTIVATION;
  DPIPE_RETURN_IF_ERROR(CheckRoute(at, message, state));
  const SampleRange samples = SamplesIn(message);
  const SampleRange own = shape_.SamplesOf(rank_, state.stage, m);
  if (!own.Contains(samples)) {
    return absl::InvalidArgumentError(absl::StrCat(at.Name(), "samples ", samples.ToString(),
                                                   " of micro-batch ", m, "; this rank's are ",
                                                   own.ToString()));
  }
  if (message.kind() == Instruction::SEND) {
    const bool made =
        activation ? IsForward(state, m) : state.gradient_layer[m] == state.shape->layers.begin;
    if (made) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "micro-batch ", m, " is not computed yet"));
  }
  Received& received = activation ? state.activations : state.gradients;
  for (int n = samples.begin; n < samples.end; ++n) {
    uint8_t& sample = received.samples[static_cast<size_t>(m) * state.share + n - own.begin];
    if (sample != 0) {
      return absl::InvalidArgumentError(absl::StrCat(at.Name(), "samples ", samples.ToString(),
                                                     "; sample ", n, " has been received already"));
    }
    sample = 1;
  }
  received.count[m] += samples.size();
  return absl::OkStatus();
}

absl::Status StageLedger::CheckWeights(const InstructionAt& at, const StageState& state,
                                       int layer) const {
  const int done = state.next_weight[layer - state.shape->layers.begin];
  if (done == state.shape->num_micro_batches) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(at.Name(), "layer ", layer,
                                                 " has the gradients of ", done, " of ",
                                                 state.shape->num_micro_batches, " micro-batches"));
}

absl::Status StageLedger::Reduce(const InstructionAt& at, const Instruction& reduce) {
  StageState& state = StateOf(reduce.stage());
  const LayerRange layers = LayersIn(reduce);
  if (!IsReduced(state))
    return absl::InvalidArgumentError(at.Name() + "no other rank holds the stage");
  DPIPE_RETURN_IF_ERROR(
      CheckBytes(at, reduce, cost_.GradientBytes(state.shape->component, layers)));
  for (int l = layers.begin; l < layers.end; ++l) {
    // Shards can be reduced, and accumulate, after any number of micro-batches.
    if (!state.shape->sharded) DPIPE_RETURN_IF_ERROR(CheckWeights(at, state, l));
    const int done = state.next_weight[l - state.shape->layers.begin];
    int& reduced = state.reduced[l - state.shape->layers.begin];
    if (done == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "layer ", l, " has no gradient to reduce"));
    }
    if (reduced == done) {
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "layer ", l, " has already been reduced"));
    }
    reduced = done;
  }
  collectives_.push_back({shape_.weights().OfStage(state.stage), false, layers});
  return absl::OkStatus();
}

absl::Status StageLedger::Gather(const InstructionAt& at, const Instruction& gather) {
  const StageShape& stage = *StateOf(gather.stage()).shape;
  const LayerRange layers = LayersIn(gather);
  if (!stage.sharded) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "the parameters of stage ", gather.stage(),
                     " are not sharded, so there is nothing to gather"));
  }
  DPIPE_RETURN_IF_ERROR(CheckBytes(
      at, gather, GatheredBytes(cost_, stage.component, layers, stage.keeps_frozen_weights)));
  for (int l = layers.begin; l < layers.end; ++l) {
    uint8_t& gathered = gathered_[stage.component][l];
    if (gathered)
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "layer ", l, " has already been gathered"));
    gathered = 1;
  }
  collectives_.push_back({shape_.weights().OfStage(gather.stage()), true, layers});
  return absl::OkStatus();
}

absl::Status StageLedger::Release(const InstructionAt& at, const Instruction& release) {
  const StageShape& stage = *StateOf(release.stage()).shape;
  if (!stage.sharded) {
    return absl::InvalidArgumentError(
        absl::StrCat(at.Name(), "the parameters of stage ", release.stage(),
                     " are not sharded, so there is nothing to release"));
  }
  for (int l = release.layers().begin(); l < release.layers().end(); ++l) {
    uint8_t& gathered = gathered_[stage.component][l];
    if (!gathered)
      return absl::InvalidArgumentError(absl::StrCat(at.Name(), "layer ", l, " is not gathered"));
    gathered = 0;
  }
  return absl::OkStatus();
}

absl::Status StageLedger::Update(const InstructionAt& at, const Instruction& update) {
  const int per_update = shape_.relaxation().micro_batches_per_update();
  const int per_sync = shape_.relaxation().updates_per_sync();
  for (const StageState& state : states_) {
    if (SharesUpdates(state) && NumUnshared() >= per_sync) {
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "the ", NumUnshared(), " updates before it are not shared"));
    }
    const int end = ++updates_ * per_update;
    if (update.micro_batch() != end - 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "micro_batch is ", update.micro_batch(), "; update ",
                       updates_ - 1, " ends with micro-batch ", end - 1));
    }
    for (int l = state.shape->layers.begin; l < state.shape->layers.end; ++l) {
      const int done = state.next_weight[l - state.shape->layers.begin];
      if (done == end) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "layer ", l, " has the gradients of ", done,
                       " micro-batches and must have those of ", end));
    }
  }
  return absl::OkStatus();
}

absl::Status StageLedger::Sync(const InstructionAt& at, const Instruction& sync) {
  const StageState& state = StateOf(sync.stage());
  const StageShape& stage = *state.shape;
  const LayerRange layers = LayersIn(sync);
  const int per_sync = shape_.relaxation().updates_per_sync();
  if (!SharesUpdates(state)) {
    return absl::InvalidArgumentError(at.Name() + "this rank shares no updates with other ranks");
  }
  if (layers != stage.layers) {
    return absl::InvalidArgumentError(absl::StrCat(at.Name(), "layers ", layers.ToString(),
                                                   " must be all of the stage's ",
                                                   stage.layers.ToString()));
  }
  if (updates_ != (syncs_ + 1) * per_sync) {
    return absl::InvalidArgumentError(absl::StrCat(at.Name(), "it follows update ", updates_ - 1,
                                                   " and must follow ",
                                                   (syncs_ + 1) * per_sync - 1));
  }
  ++syncs_;
  DPIPE_RETURN_IF_ERROR(CheckBytes(at, sync, cost_.GradientBytes(stage.component, layers)));
  collectives_.push_back({shape_.weights().OfStage(sync.stage()), true, layers});
  return absl::OkStatus();
}

absl::Status StageLedger::CheckShared(int rank) const {
  for (const StageState& state : states_) {
    if (!SharesUpdates(state) || NumUnshared() == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, ": the last ", NumUnshared(), " updates are not shared"));
  }
  return absl::OkStatus();
}

absl::Status StageLedger::OptimizerStep(const InstructionAt& at) const {
  for (const StageState& state : states_) {
    const LayerRange& layers = state.shape->layers;
    for (int l = layers.begin; state.shape->sharded && l < layers.end; ++l) {
      if (!gathered_[state.shape->component][l]) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "the parameters of layer ", l, " are not released"));
    }
    for (int m = 0; m < state.shape->num_micro_batches; ++m) {
      if (state.shape->forward_only) {
        if (IsForward(state, m)) continue;
        return absl::InvalidArgumentError(
            absl::StrCat(at.Name(), "stage ", state.stage, " has not computed micro-batch ", m));
      }
      if (state.gradient_layer[m] == layers.begin) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(at.Name(), "gradients of micro-batch ", m, " have reached layer ",
                       state.gradient_layer[m], ", not to ", layers.begin));
    }
    if (state.shape->forward_only) continue;
    for (int l = layers.begin; l < layers.end; ++l) {
      DPIPE_RETURN_IF_ERROR(CheckWeights(at, state, l));
      const bool all = state.reduced[l - layers.begin] == state.shape->num_micro_batches;
      if (!IsReduced(state) || all) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          at.Name(), "layer ", l, " is not reduced over the ",
          shape_.weights().GroupOf(state.stage).ranks.size(), " ranks of stage ", state.stage));
    }
  }
  return absl::OkStatus();
}

}  // namespace dpipe
