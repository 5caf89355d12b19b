#include "core/schedule/memory/pass_memory.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/proto/instruction_parts.h"
#include "core/schedule/messages/param_gathers.h"

namespace dpipe {
PassMemory::PassMemory(const Plan& plan, int rank, const std::vector<int>& stages,
                       const std::vector<ChainBoundaries>& boundaries, const CostModel& cost)
    : plan_(plan),
      list_(plan.devices(rank).instructions()),
      stages_(stages),
      boundaries_(boundaries),
      cost_(cost),
      blocks_(stages.size()),
      passes_(stages.size()) {
  for (size_t i = 0; i < stages.size(); ++i) {
    if (plan.stages(stages[i]).recompute()) blocks_[i] = BlocksOf(plan.stages(stages[i]));
    passes_[i].resize(plan.chains(plan.stages(stages[i]).chain()).num_micro_batches());
  }
  for (int i = 0; i < list_.size(); ++i) {
    const Instruction& instruction = list_[i];
    if (instruction.micro_batch() < 0) continue;
    auto* pass = const_cast<PassIndices*>(Find(instruction.stage(), instruction.micro_batch()));
    if (pass == nullptr) continue;
    switch (instruction.kind()) {
      case Instruction::FORWARD:
        pass->forward = pass->done = i;
        if (pass->begin < 0) pass->begin = i;
        pass->samples = SamplesIn(instruction);
        break;
      case Instruction::RECOMPUTE: {
        const std::vector<LayerRange>& blocks = blocks_[IndexOf(instruction.stage())];
        pass->recomputes.resize(blocks.size(), -1);
        for (size_t b = 0; b < blocks.size(); ++b) {
          const bool is_of_block = blocks[b].Contains(instruction.layers().begin());
          if (is_of_block && pass->recomputes[b] < 0) pass->recomputes[b] = i;
        }
        pass->recompute = i;
        break;
      }
      case Instruction::BACKWARD:
        pass->gradient_done = pass->done = i;
        break;
      case Instruction::INPUT_GRAD:
        pass->gradient_done = i;
        break;
      case Instruction::WEIGHT_GRAD:
        pass->done = i;
        break;
      default:
        break;
    }
  }
}

int PassMemory::IndexOf(int stage) const {
  const auto at = std::find(stages_.begin(), stages_.end(), stage);
  return at == stages_.end() ? -1 : static_cast<int>(at - stages_.begin());
}

const PassIndices* PassMemory::Find(int stage, int micro_batch) const {
  const int i = IndexOf(stage);
  if (i < 0) return nullptr;
  const bool known = 0 <= micro_batch && micro_batch < static_cast<int>(passes_[i].size());
  return known ? &passes_[i][micro_batch] : nullptr;
}

void PassMemory::AddTo(MemoryTimeline* timeline) const {
  for (int i = 0; i < list_.size(); ++i) {
    switch (list_[i].kind()) {
      case Instruction::FORWARD:
      case Instruction::RECOMPUTE:
      case Instruction::BACKWARD:
      case Instruction::INPUT_GRAD:
      case Instruction::WEIGHT_GRAD:
        AddSaved(i, timeline);
        break;
      case Instruction::SEND:
      case Instruction::RECV:
        if (!IsOfFrozen(list_[i].payload())) AddMessage(i, timeline);
        break;
      default:
        break;
    }
  }
  AddSharded(timeline);
  std::vector<bool> seen(boundaries_.size(), false);
  for (int stage : stages_) {
    const int chain = plan_.stages(stage).chain();
    AddHandedOn(stage, timeline);
    AddHandOvers(stage, timeline);
    if (!seen[chain]) AddKept(chain, timeline);
    seen[chain] = true;
  }
}

void PassMemory::AddSaved(int i, MemoryTimeline* timeline) const {
  const Instruction& instruction = list_[i];
  const int component = plan_.stages(instruction.stage()).component();
  const int64_t samples = SamplesIn(instruction).size();
  const LayerRange layers = LayersIn(instruction);
  timeline->HoldDuring(i, cost_.WorkspaceBytesPerSample(component, layers) * samples);
  const bool completes = ComputesWeightGrad(instruction.kind());
  const PassIndices* pass = Find(instruction.stage(), instruction.micro_batch());
  if (!completes || pass == nullptr) return;
  // The activations that the forward pass of these layers saved are released here.
  if (pass->recomputes.empty()) {
    timeline->Hold(std::max(0, pass->begin), i,
                   cost_.SavedBytesPerSample(component, layers) * samples);
  }
  for (size_t b = 0; b < pass->recomputes.size(); ++b) {
    const LayerRange part = blocks_[IndexOf(instruction.stage())][b].Intersect(layers);
    if (part.empty()) continue;
    timeline->Hold(std::max(0, pass->recomputes[b]), i,
                   cost_.SavedBytesPerSample(component, part) * samples);
  }
}

// The next block is the last to need what a block has handed on.
void PassMemory::AddHandedOn(int stage, MemoryTimeline* timeline) const {
  const int at = IndexOf(stage);
  const std::vector<LayerRange>& blocks = blocks_[at];
  for (size_t b = 0; b + 1 < blocks.size(); ++b) {
    const int64_t bytes =
        cost_.Blocks(plan_.stages(stage).component()).HandedOnBytes(blocks[b], blocks.back().end);
    for (const PassIndices& pass : passes_[at]) {
      if (pass.forward < 0 || pass.recomputes.empty()) continue;
      timeline->Hold(pass.forward, pass.recomputes[b + 1], bytes * pass.samples.size());
    }
  }
}

void PassMemory::AddMessage(int i, MemoryTimeline* timeline) const {
  const Instruction& message = list_[i];
  const PassIndices* pass = Find(message.stage(), message.micro_batch());
  if (pass == nullptr) return;
  const bool receives = message.kind() == Instruction::RECV;
  const int at = message.payload() == Instruction::GRADIENT ? pass->gradient_done
                 : receives                                 ? InputsRead(*pass)
                                                            : pass->forward;
  if (at < 0) return;
  timeline->Hold(std::min(i, at), std::max(i, at), message.bytes());
}

// Values for the next stage of the chain, and their gradients back, if that stage is also on this
// rank.
void PassMemory::AddHandOvers(int stage, MemoryTimeline* timeline) const {
  const PipelineChain& chain = plan_.chains(plan_.stages(stage).chain());
  const int k = stage - chain.first_stage();
  if (k + 1 >= chain.num_stages() || Find(stage + 1, 0) == nullptr) return;
  const ChainBoundaries& boundaries = boundaries_[plan_.stages(stage).chain()];
  for (int m = 0; m < chain.num_micro_batches(); ++m) {
    const PassIndices &from = *Find(stage, m), &to = *Find(stage + 1, m);
    if (from.forward < 0 || to.forward < 0) continue;
    timeline->Hold(from.forward, InputsRead(to), boundaries.ForwardBytes(k) * from.samples.size());
    if (from.gradient_done < 0 || to.gradient_done < 0) continue;
    timeline->Hold(to.gradient_done, from.gradient_done,
                   boundaries.GradientBytes(k) * from.samples.size());
  }
}

void PassMemory::AddKept(int chain, MemoryTimeline* timeline) const {
  const int first = plan_.chains(chain).first_stage();
  const std::vector<KeptValue>& kept = boundaries_[chain].kept();
  for (size_t v = 0; v < kept.size(); ++v) {
    if (Find(first + kept[v].from, 0) == nullptr) continue;
    // Hold one copy until the last of its readers on this rank.
    const bool is_last = v + 1 == kept.size() || kept[v + 1].value != kept[v].value ||
                         kept[v + 1].from != kept[v].from;
    for (int m = 0; m < plan_.chains(chain).num_micro_batches(); ++m) {
      const PassIndices &from = *Find(first + kept[v].from, m), &to = *Find(first + kept[v].to, m);
      if (from.forward < 0 || to.forward < 0) continue;
      const int64_t bytes = kept[v].bytes_per_sample * from.samples.size();
      if (is_last) timeline->Hold(from.forward, InputsRead(to), bytes);
      if (is_last && kept[v].has_gradient && from.gradient_done >= 0 && to.gradient_done >= 0) {
        timeline->Hold(to.gradient_done, from.gradient_done, bytes);
      }
    }
  }
}

void PassMemory::AddSharded(MemoryTimeline* timeline) const {
  std::map<std::pair<int, LayerRange>, int> gathered, gradients;  // by component: since when held
  int reduced_since = -1;  // of the gradients under reduction; -1: none
  int64_t reduced_bytes = 0;
  const auto end_reduction = [&](int i) {
    if (reduced_since >= 0) timeline->Hold(reduced_since, i, reduced_bytes);
    reduced_since = -1;
  };
  for (int i = 0; i < list_.size(); ++i) {
    const Instruction& instruction = list_[i];
    if (instruction.stage() < 0 || !plan_.stages(instruction.stage()).sharded()) continue;
    const Stage& stage = plan_.stages(instruction.stage());
    const int component = stage.component();
    const LayerRange layers = LayersIn(instruction);
    const auto key = std::make_pair(component, layers);
    switch (instruction.kind()) {
      case Instruction::GATHER_PARAMS:
        gathered[key] = i;
        break;
      case Instruction::RELEASE_PARAMS:
        if (gathered.count(key) == 0) break;
        timeline->Hold(gathered[key], i,
                       GatheredBytes(cost_, component, layers, stage.keeps_frozen_weights()));
        break;
      case Instruction::BACKWARD:
      case Instruction::WEIGHT_GRAD:
        gradients.emplace(key, i);
        break;
      case Instruction::REDUCE_GRADS: {
        int since = -1;  // when the first pass over some of the layers began
        for (auto part = gradients.begin(); part != gradients.end();) {
          const auto& [key, at] = *part;
          if (key.first != component || !layers.Contains(key.second)) {
            ++part;
            continue;
          }
          since = since < 0 ? at : std::min(since, at);
          part = gradients.erase(part);
        }
        if (since < 0) break;
        end_reduction(i);
        reduced_since = since;
        reduced_bytes = cost_.GradientBytes(component, layers);
        break;
      }
      default:
        break;
    }
  }
  end_reduction(list_.size() - 1);
}

}  // namespace dpipe
