#include "core/schedule/placement/frozen_placement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

// Returns the samples that each rank of a group runs through the frozen components. If the schedule
// has one device, these are the samples on which the rank itself trains the first backbone,
// provided that all are aligned to the quantum. Otherwise each rank takes an even share.
std::vector<std::vector<SampleRange>> FirstSamples(const PipelineLayout& layout, int quantum,
                                                   int group) {
  const int devices = layout.devices_per_pipeline();
  std::vector<std::vector<SampleRange>> samples(devices);
  if (layout.replicas.size() == 1) {
    bool aligned = true;
    for (int i = 0; i < devices; ++i) {
      for (int c = 0; c < static_cast<int>(layout.chains.size()); ++c) {
        if (layout.chains[c].backbone != layout.chains[0].backbone) continue;
        for (int m = 0; m < layout.chains[c].num_micro_batches; ++m) {
          samples[i].push_back(SamplesOf(layout, group, c, 0, i, m));
        }
      }
      samples[i] = Merge(std::move(samples[i]));
      for (const SampleRange& range : samples[i]) {
        aligned &= range.begin % quantum == 0 && range.end % quantum == 0;
      }
    }
    if (aligned) return samples;
  }
  const int begin = group * layout.samples_per_group();
  const std::vector<SampleRange> shares =
      SplitEvenly({begin, begin + layout.samples_per_group()}, devices, quantum);
  for (int i = 0; i < devices; ++i) samples[i] = {shares[i]};
  return samples;
}

// As FirstSamples, but gives all samples to the ranks of the schedule's first device.
std::vector<std::vector<SampleRange>> FirstStageSamples(const PipelineLayout& layout, int quantum,
                                                        int group) {
  if (layout.replicas.size() == 1) return FirstSamples(layout, quantum, group);
  std::vector<std::vector<SampleRange>> samples(layout.devices_per_pipeline());
  const int begin = group * layout.samples_per_group();
  const std::vector<SampleRange> shares =
      SplitEvenly({begin, begin + layout.samples_per_group()}, layout.replicas[0], quantum);
  for (int i = 0; i < layout.replicas[0]; ++i) samples[RankAt(layout, {0, 0, i})] = {shares[i]};
  return samples;
}

// Returns the outputs that each stage of each rank reads. The ranges of one rank may overlap.
std::vector<FrozenOutput> Readers(const PipelineLayout& layout, const CostModel& cost) {
  std::vector<FrozenOutput> readers;
  for (const StagePlacement& stage : layout.stages) {
    const ChainPlacement& chain = layout.chains[stage.chain];
    const std::vector<int> sources =
        cost.SourcesOf(BackboneComponent(cost, chain.backbone), stage.layers);
    if (sources.empty()) continue;
    for (int group = 0; group < layout.num_groups(); ++group) {
      for (int i = 0; i < layout.replicas[stage.device]; ++i) {
        const int rank = RankAt(layout, {group, stage.device, i});
        for (int m = 0; m < chain.num_micro_batches; ++m) {
          const SampleRange samples = SamplesOf(layout, group, stage.chain, stage.device, i, m);
          for (int component : sources) readers.push_back({component, rank, samples, 0});
        }
      }
    }
  }
  return readers;
}

void AddExchange(const PipelineLayout& layout, const CostModel& cost, FrozenPlacement* placement) {
  std::vector<FrozenOutput> owners;
  for (const std::vector<FillItem>& items : placement->items) {
    for (const FillItem& item : items) {
      if (item.load || item.layers.end != cost.num_layers(item.component)) continue;
      owners.push_back({item.component, item.rank, item.samples, item.step_offset});
    }
  }
  placement->exchange = FrozenExchange(owners, Readers(layout, cost));
}

// Adds the items that run some of a rank's samples through all frozen components.
void AddChains(const CostModel& cost, int rank, SampleRange samples, std::vector<FillItem>* items) {
  for (int component : cost.frozen_components()) {
    items->push_back({rank, 0, true, component, {}, samples, 0});
    items->push_back({rank, 0, false, component, cost.AllLayers(component), samples, 0});
  }
}

using GroupSamples = std::vector<std::vector<SampleRange>>;  // by rank of the group

FrozenPlacement PlaceBeforePipeline(const PipelineLayout& layout, const CostModel& cost,
                                    int quantum, int max_batch,
                                    GroupSamples (*samples_of)(const PipelineLayout&, int, int)) {
  FrozenPlacement placement;
  placement.items.resize(layout.num_devices);
  const int limit =
      max_batch > 0 ? std::max(quantum, max_batch / quantum * quantum) : layout.global_batch();
  for (int rank = 0; rank < layout.num_devices; ++rank) {
    const int group = rank / layout.devices_per_pipeline();
    const GroupSamples samples = samples_of(layout, quantum, group);
    for (const SampleRange& share : samples[rank % layout.devices_per_pipeline()]) {
      for (int begin = share.begin; begin < share.end; begin += limit) {
        AddChains(cost, rank, {begin, std::min(share.end, begin + limit)}, &placement.items[rank]);
      }
    }
  }
  AddExchange(layout, cost, &placement);
  return placement;
}

}  // namespace

FrozenPlacement PlaceFrozenFirst(const PipelineLayout& layout, const CostModel& cost, int quantum,
                                 int max_batch) {
  return PlaceBeforePipeline(layout, cost, quantum, max_batch, FirstSamples);
}

FrozenPlacement PlaceFrozenOnFirstStage(const PipelineLayout& layout, const CostModel& cost,
                                        int quantum, int max_batch) {
  return PlaceBeforePipeline(layout, cost, quantum, max_batch, FirstStageSamples);
}

absl::StatusOr<FrozenPlacement> PlaceFillItems(const PipelineLayout& layout, const CostModel& cost,
                                               const std::vector<FillItem>& fill) {
  FrozenPlacement placement;
  placement.items.resize(layout.num_devices);
  for (const FillItem& item : fill) {
    if (item.rank < 0 || item.rank >= layout.num_devices) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a fill item is on rank ", item.rank, "; the number of ranks is ", layout.num_devices));
    }
    if (item.component < 0 || item.component >= cost.num_components() ||
        cost.IsBackbone(item.component)) {
      return absl::InvalidArgumentError(absl::StrCat("a fill item of rank ", item.rank,
                                                     " is of component ", item.component,
                                                     ", which is not frozen"));
    }
    if (item.step_offset == 0 && item.position != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a fill item of rank ", item.rank, " with step_offset 0 is at position ",
                       item.position, "; this step's frozen work comes first, at 0"));
    }
    placement.items[item.rank].push_back(item);
  }
  for (std::vector<FillItem>& items : placement.items) {
    std::stable_sort(items.begin(), items.end(),
                     [](const FillItem& a, const FillItem& b) { return a.position < b.position; });
  }
  AddExchange(layout, cost, &placement);
  return placement;
}

}  // namespace dpipe
