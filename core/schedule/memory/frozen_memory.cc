#include "core/schedule/memory/frozen_memory.h"

#include <algorithm>
#include <set>

#include "core/proto/instruction_parts.h"

namespace dpipe {
namespace {

// Calls visit(last read, number of samples) for every maximal run of samples with equal last reads.
// -1 means never read.
template <typename Visit>
void ForRuns(const std::vector<int>& last_reads, SampleRange samples, const Visit& visit) {
  const auto at = [&](int n) { return last_reads.empty() ? -1 : last_reads[n]; };
  for (int begin = samples.begin; begin < samples.end;) {
    int end = begin + 1;
    while (end < samples.end && at(end) == at(begin)) ++end;
    visit(at(begin), end - begin);
    begin = end;
  }
}

}  // namespace

FrozenMemory::FrozenMemory(const Plan& plan, int rank, const std::vector<int>& stages,
                           const std::vector<std::vector<PassIndices>>& passes,
                           const CostModel& cost)
    : plan_(plan),
      list_(plan.devices(rank).instructions()),
      cost_(cost),
      last_reads_(plan.components_size()),
      cached_reads_(plan.components_size()),
      cached_bytes_(plan.components_size(), 0) {
  for (int i = 0; i < list_.size(); ++i) {
    const Instruction& instruction = list_[i];
    const int offset = instruction.step_offset();
    if (instruction.kind() == Instruction::FROZEN_FORWARD) {
      starts_at_[{instruction.component(), offset, instruction.layers().begin()}].push_back(i);
      for (int source : cost.SourcesOf(instruction.component(), LayersIn(instruction))) {
        readers_[{source, offset}].push_back(i);
      }
    } else if (instruction.kind() == Instruction::SEND &&
               instruction.payload() == Instruction::FROZEN_VALUES) {
      starts_at_[{instruction.component(), offset, instruction.layers().begin()}].push_back(i);
    } else if (instruction.kind() == Instruction::SEND &&
               instruction.payload() == Instruction::FROZEN_OUTPUT) {
      readers_[{instruction.component(), offset}].push_back(i);
    }
  }
  IndexReaders(stages, passes);
}

void FrozenMemory::IndexReaders(const std::vector<int>& stages,
                                const std::vector<std::vector<PassIndices>>& passes) {
  std::vector<std::set<int>> cached(plan_.components_size());
  const auto read = [this](const PassIndices& pass, LastReads* last_reads) {
    last_reads->resize(plan_.global_batch(), -1);
    for (int n = pass.samples.begin; n < pass.samples.end; ++n) {
      (*last_reads)[n] = std::max((*last_reads)[n], pass.done);
    }
  };
  for (size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = plan_.stages(stages[s]);
    const LayerRange layers = LayersIn(stage);
    const std::vector<int> sources = cost_.SourcesOf(stage.component(), layers);
    for (const PassIndices& pass : passes[s]) {
      if (sources.empty()) break;
      if (plan_.cached_frozen_outputs()) {
        read(pass, &cached_reads_[stage.component()]);
      } else {
        for (int source : sources) read(pass, &last_reads_[source]);
      }
    }
    cached[stage.component()].insert(sources.begin(), sources.end());
  }
  for (int c = 0; c < plan_.components_size(); ++c) {
    for (int source : cached[c]) cached_bytes_[c] += cost_.OutputBytesPerSample(source);
  }
}

int64_t FrozenMemory::WeightBytes() const {
  int64_t bytes = 0;
  std::vector<std::vector<bool>> runs(plan_.components_size());  // by component and layer
  for (const auto& [key, instructions] : starts_at_) {
    const int component = std::get<0>(key);
    runs[component].resize(cost_.num_layers(component), false);
    for (int i : instructions) {
      if (list_[i].kind() == Instruction::SEND) continue;
      for (int l = list_[i].layers().begin(); l < list_[i].layers().end(); ++l) {
        if (!runs[component][l]) bytes += cost_.ParameterBytes(component, {l, l + 1});
        runs[component][l] = true;
      }
    }
  }
  return bytes;
}

void FrozenMemory::AddTo(MemoryTimeline* timeline) const {
  for (int i = 0; i < list_.size(); ++i) {
    const Instruction& instruction = list_[i];
    const int component = instruction.component();
    switch (instruction.kind()) {
      case Instruction::FROZEN_FORWARD: {
        const LayerRange layers = LayersIn(instruction);
        timeline->HoldDuring(
            i, cost_.WorkspaceBytesPerSample(component, layers) * SamplesIn(instruction).size());
        if (layers.end == cost_.num_layers(component)) {
          AddOutputs(i, timeline);
        } else {
          AddContinued(i, layers.end, cost_.CutBytesPerSample(component, layers.end), timeline);
        }
        break;
      }
      case Instruction::LOAD_BATCH:
        if (cost_.IsBackbone(component)) {
          AddCached(i, timeline);
        } else {
          AddContinued(i, 0, cost_.LoadedBytesPerSample(component), timeline);
        }
        break;
      case Instruction::RECV:
        if (instruction.payload() == Instruction::FROZEN_OUTPUT) AddOutputs(i, timeline);
        if (instruction.payload() == Instruction::FROZEN_VALUES) {
          const int layer = instruction.layers().begin();
          AddContinued(i, layer, cost_.MovedBytesPerSample(component, layer), timeline);
        }
        break;
      default:
        break;
    }
  }
}

// Adds the values that instruction i leaves for the frozen layers from `layer` on. They are held
// until these layers have run or the values have been sent to another rank.
void FrozenMemory::AddContinued(int i, int layer, int64_t bytes, MemoryTimeline* timeline) const {
  const auto found = starts_at_.find({list_[i].component(), list_[i].step_offset(), layer});
  if (found == starts_at_.end()) return;
  const std::vector<int>& next = found->second;
  for (auto j = std::upper_bound(next.begin(), next.end(), i); j != next.end(); ++j) {
    timeline->Hold(i, *j, bytes * SamplesIn(list_[i]).Intersect(SamplesIn(list_[*j])).size());
  }
}

void FrozenMemory::AddCached(int i, MemoryTimeline* timeline) const {
  const int component = list_[i].component();
  ForRuns(cached_reads_[component], SamplesIn(list_[i]), [&](int last, int count) {
    if (last >= 0) timeline->Hold(i, last, cached_bytes_[component] * count);
  });
}

void FrozenMemory::AddOutputs(int i, MemoryTimeline* timeline) const {
  const Instruction& made = list_[i];
  const SampleRange samples = SamplesIn(made);
  const int64_t bytes = cost_.OutputBytesPerSample(made.component());
  int last = i;  // of the readers other than passes; they are all in the same step
  const auto found = readers_.find({made.component(), made.step_offset()});
  if (found != readers_.end()) {
    for (auto j = found->second.rbegin(); j != found->second.rend() && *j > i; ++j) {
      if (SamplesIn(list_[*j]).Intersect(samples).empty()) continue;
      last = *j;
      break;
    }
  }
  ForRuns(last_reads_[made.component()], samples, [&](int last_pass, int count) {
    if (last_pass < 0) {
      timeline->Hold(i, last, bytes * count);
    } else if (made.step_offset() == 0) {
      timeline->Hold(i, std::max(last, last_pass), bytes * count);
    } else {
      timeline->HoldAcross(i, last_pass, bytes * count);
    }
  });
}

}  // namespace dpipe
