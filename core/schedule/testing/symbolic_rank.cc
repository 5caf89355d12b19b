#include "core/schedule/testing/symbolic_rank.h"

#include <algorithm>
#include <string>

namespace dpipe::symbolic {
namespace {

absl::Status Missing(const std::string& what) { return absl::InternalError(what); }

}  // namespace

SymbolicRank::SymbolicRank(const Plan& plan, const CostModel& cost, int rank,
                           std::set<FrozenKey>* computed)
    : plan_(plan), cost_(cost), computed_(computed), weights_of_(plan.stages_size(), -1) {
  for (const Stage& stage : plan.stages()) {
    holds_.push_back(std::count(stage.ranks().begin(), stage.ranks().end(), rank) > 0);
  }
  for (int s = 0; s < plan.stages_size(); ++s) {
    if (holds_[s]) AddStage(s);
  }
}

void SymbolicRank::AddStage(int s) {
  const Stage& stage = plan_.stages(s);
  weights_of_[s] = s;
  if (stage.forward_only()) {
    for (int t = 0; t < plan_.stages_size(); ++t) {
      const Stage& other = plan_.stages(t);
      if (!other.forward_only() && other.chain() == stage.chain() &&
          other.layers().begin() == stage.layers().begin()) {
        weights_of_[s] = t;
      }
    }
    return;
  }
  StageWeights& held = stages_[s];
  for (int l = stage.layers().begin(); l < stage.layers().end(); ++l) {
    held.weights.push_back(InitialWeight(stage.component(), l));
  }
  held.sums.assign(held.weights.size(), 0);
  held.gathered.assign(held.weights.size(), !stage.sharded());
}

std::vector<Hash> SymbolicRank::Weights() const {
  std::vector<Hash> result;
  for (const auto& [id, stage] : stages_) {
    result.insert(result.end(), stage.weights.begin(), stage.weights.end());
  }
  return result;
}

absl::Status SymbolicRank::Compute(const Instruction& instruction, int step) {
  for (int n = instruction.samples().begin(); n < instruction.samples().end(); ++n) {
    DPIPE_RETURN_IF_ERROR(ComputeSample(instruction, n, step));
  }
  return absl::OkStatus();
}

absl::Status SymbolicRank::ComputeSample(const Instruction& i, int n, int step) {
  switch (i.kind()) {
    case Instruction::LOAD_BATCH:
      return Load(i, n, step);
    case Instruction::FROZEN_FORWARD:
      return Frozen(i, n, step);
    case Instruction::FORWARD:
      return Forward(i, n, step);
    case Instruction::RECOMPUTE:
      return Recompute(i, n, step);
    case Instruction::BACKWARD:
      DPIPE_RETURN_IF_ERROR(InputGrad(i, n, step));
      return Weight(i, n, step);
    case Instruction::INPUT_GRAD:
      return InputGrad(i, n, step);
    case Instruction::WEIGHT_GRAD:
      return Weight(i, n, step);
    default:
      return absl::OkStatus();
  }
}

// Returns the frozen outputs that a layer reads, as one symbol.
absl::StatusOr<Hash> SymbolicRank::Sources(int component, int layer, int n, int step) const {
  Hash hash = 0;
  for (int source : cost_.SourcesOf(component, {layer, layer + 1})) {
    const auto found = outputs_.find({source, n, step});
    if (found == outputs_.end()) return Missing("a frozen output is missing");
    hash = AddSource(hash, found->second);
  }
  return hash;
}

absl::Status SymbolicRank::Load(const Instruction& i, int n, int step) {
  if (!cost_.IsBackbone(i.component())) {
    const auto entry = std::make_pair(0, Loaded(i.component(), n, step));
    if (!chains_.emplace(FrozenKey{i.component(), n, step}, entry).second) {
      return Missing("loaded twice");
    }
    return absl::OkStatus();
  }
  // The cache holds what would be computed.
  for (int component : cost_.frozen_components()) {
    Hash value = Loaded(component, n, step);
    for (int l = 0; l < cost_.num_layers(component); ++l) {
      DPIPE_ASSIGN_OR_RETURN(const Hash sources, Sources(component, l, n, step));
      value = FrozenLayer(component, l, value, sources);
    }
    outputs_[{component, n, step}] = value;
  }
  return absl::OkStatus();
}

absl::Status SymbolicRank::Frozen(const Instruction& i, int n, int step) {
  const auto found = chains_.find({i.component(), n, step});
  if (found == chains_.end()) return Missing("a frozen chain has not begun");
  auto& [next, value] = found->second;
  for (int l = i.layers().begin(); l < i.layers().end(); ++l) {
    if (l != next) return Missing("a frozen layer is out of order");
    DPIPE_ASSIGN_OR_RETURN(const Hash sources, Sources(i.component(), l, n, step));
    value = FrozenLayer(i.component(), l, value, sources);
    ++next;
  }
  if (next == cost_.num_layers(i.component())) {
    if (!computed_->emplace(i.component(), n, step).second) return Missing("computed twice");
    outputs_[{i.component(), n, step}] = value;
  }
  return absl::OkStatus();
}

// Returns the output of the previous stage, from this rank or received.
absl::StatusOr<Hash> SymbolicRank::FromBefore(int stage, const PassKey& key) {
  const auto [of, m, n, step] = key;
  if (Holds(stage - 1)) {
    const auto found = passages_.find({stage - 1, m, n, step});
    if (found == passages_.end() || !found->second.complete) {
      return Missing("the previous stage has not run");
    }
    return found->second.output;
  }
  const auto found = activations_.find(key);
  if (found == activations_.end()) return Missing("an activation is missing");
  return found->second;
}

absl::StatusOr<Hash> SymbolicRank::Front(int stage, const PassKey& key) {
  const auto [of, m, n, step] = key;
  const Hash input = BackboneInput(plan_.stages(stage).component(), n, step);
  if (IsFirst(stage)) return input;
  DPIPE_ASSIGN_OR_RETURN(const Hash before, FromBefore(stage, key));
  return BeginsSecondLap(stage) ? WithEstimate(input, before) : before;
}

// Applies the instruction's layers to `value`; sets the passage's inputs.
absl::StatusOr<Hash> SymbolicRank::RunLayers(const Instruction& i, int n, int step, Hash value,
                                             Passage* passage) {
  const Stage& stage = plan_.stages(i.stage());
  const StageWeights& held = stages_[weights_of_[i.stage()]];
  for (int l = i.layers().begin(); l < i.layers().end(); ++l) {
    const int at = l - stage.layers().begin();
    if (!held.gathered[at]) return Missing("weights are not gathered");
    passage->inputs[l] = value;
    DPIPE_ASSIGN_OR_RETURN(const Hash sources, Sources(stage.component(), l, n, step));
    value = ForwardLayer(l, value, held.weights[at], sources);
  }
  return value;
}

absl::Status SymbolicRank::Forward(const Instruction& i, int n, int step) {
  const Stage& stage = plan_.stages(i.stage());
  const PassKey key{i.stage(), i.micro_batch(), n, step};
  Passage& passage = passages_[key];
  if (passage.complete) return Missing("forward twice");
  if (passage.next == 0) {
    DPIPE_ASSIGN_OR_RETURN(passage.front, Front(i.stage(), key));
    passage.output = passage.front;
    passage.next = stage.layers().begin();
  }
  if (i.layers().begin() != passage.next) return Missing("a layer is out of order");
  DPIPE_ASSIGN_OR_RETURN(passage.output, RunLayers(i, n, step, passage.output, &passage));
  passage.next = i.layers().end();
  passage.complete = passage.next == stage.layers().end();
  for (int cut : stage.recompute_cuts()) {
    if (passage.inputs.count(cut) > 0) passage.blocks[cut] = passage.inputs[cut];
  }
  if (stage.recompute() || stage.forward_only()) passage.inputs.clear();
  return absl::OkStatus();
}

absl::Status SymbolicRank::Recompute(const Instruction& i, int n, int step) {
  const Stage& stage = plan_.stages(i.stage());
  Passage& passage = passages_[{i.stage(), i.micro_batch(), n, step}];
  if (!stage.recompute() || !passage.complete) return Missing("nothing to recompute");
  const int begin = i.layers().begin();
  if (begin == stage.layers().begin()) {
    return RunLayers(i, n, step, passage.front, &passage).status();
  }
  const auto block = passage.blocks.find(begin);
  if (block == passage.blocks.end()) return Missing("recomputed from the middle");
  const Hash input = block->second;
  passage.blocks.erase(block);  // once
  return RunLayers(i, n, step, input, &passage).status();
}

// Returns the gradient that arrives at the end of a stage.
absl::StatusOr<Hash> SymbolicRank::Arriving(const PassKey& key, const Passage& passage) {
  const auto [stage, m, n, step] = key;
  if (IsLast(stage)) return LossGradient(passage.output);
  if (Holds(stage + 1)) {
    const auto after = passages_.find({stage + 1, m, n, step});
    if (after == passages_.end()) return Missing("the next stage has not run");
    const auto found = after->second.gradients.find(plan_.stages(stage).layers().end() - 1);
    if (found == after->second.gradients.end()) return Missing("no gradient from the next stage");
    return found->second;
  }
  const auto found = gradients_.find(key);
  if (found == gradients_.end()) return Missing("a gradient is missing");
  return found->second;
}

absl::Status SymbolicRank::InputGrad(const Instruction& i, int n, int step) {
  const PassKey key{i.stage(), i.micro_batch(), n, step};
  const int end = plan_.stages(i.stage()).layers().end();
  Passage& passage = passages_[key];
  if (!passage.complete) return Missing("backward before forward");
  for (int l = i.layers().end() - 1; l >= i.layers().begin(); --l) {
    if (l == end - 1) {
      DPIPE_ASSIGN_OR_RETURN(passage.gradients[l], Arriving(key, passage));
    }
    if (passage.gradients.count(l) == 0) return Missing("a gradient is out of order");
    if (passage.inputs.count(l) == 0) return Missing("a layer's input is not kept");
    if (!IsGathered(i.stage(), l)) return Missing("weights are not gathered");
    passage.gradients[l - 1] = GradLayer(l, passage.gradients[l], passage.inputs[l]);
  }
  return absl::OkStatus();
}

absl::Status SymbolicRank::Weight(const Instruction& i, int n, int step) {
  Passage& passage = passages_[{i.stage(), i.micro_batch(), n, step}];
  const int begin = plan_.stages(i.stage()).layers().begin();
  for (int l = i.layers().end() - 1; l >= i.layers().begin(); --l) {
    if (passage.gradients.count(l - 1) == 0) return Missing("a weight gradient is too early");
    Hash& sum = stages_[i.stage()].sums[l - begin];
    sum = AddGradient(sum, WeightGrad(l, passage.gradients[l], passage.inputs[l]));
  }
  return absl::OkStatus();
}

void SymbolicRank::StepWeights() {
  for (auto& [id, stage] : stages_) {
    for (size_t l = 0; l < stage.weights.size(); ++l) {
      stage.weights[l] = SteppedWeight(stage.weights[l], stage.sums[l]);
      stage.sums[l] = 0;
    }
  }
}

void SymbolicRank::SetGathered(const Instruction& i) {
  const int begin = plan_.stages(i.stage()).layers().begin();
  std::vector<bool>& gathered = stages_[weights_of_[i.stage()]].gathered;
  for (int l = i.layers().begin(); l < i.layers().end(); ++l) {
    gathered[l - begin] = i.kind() == Instruction::GATHER_PARAMS;
  }
}

absl::StatusOr<Hash> SymbolicRank::TakePayload(const Instruction& i, int n, int step) {
  if (i.payload() == Instruction::FROZEN_VALUES) {
    const auto found = chains_.find({i.component(), n, step});
    if (found == chains_.end() || found->second.first != i.layers().begin()) {
      return Missing("the frozen chain to move is not there");
    }
    const Hash value = found->second.second;
    chains_.erase(found);
    return value;
  }
  if (i.payload() == Instruction::FROZEN_OUTPUT) {
    const auto found = outputs_.find({i.component(), n, step});
    if (found == outputs_.end()) return Missing("a frozen output to send is missing");
    return found->second;
  }
  const auto found = passages_.find({i.stage(), i.micro_batch(), n, step});
  if (found == passages_.end()) return Missing("the pass whose data is to be sent is missing");
  if (i.payload() == Instruction::ACTIVATION) {
    if (!found->second.complete) return Missing("an activation to send is missing");
    return found->second.output;
  }
  const int begin = plan_.stages(i.stage()).layers().begin();
  const auto gradient = found->second.gradients.find(begin - 1);
  if (gradient == found->second.gradients.end()) return Missing("a gradient to send is missing");
  return gradient->second;
}

void SymbolicRank::Accept(const Instruction& i, int n, int step, Hash value) {
  if (i.payload() == Instruction::FROZEN_VALUES) {
    chains_[{i.component(), n, step}] = {i.layers().begin(), value};
    return;
  }
  if (i.payload() == Instruction::FROZEN_OUTPUT) {
    outputs_[{i.component(), n, step}] = value;
    return;
  }
  auto& received = i.payload() == Instruction::ACTIVATION ? activations_ : gradients_;
  received[{i.stage(), i.micro_batch(), n, step}] = value;
}

}  // namespace dpipe::symbolic
