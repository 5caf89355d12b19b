#include "core/schedule/frozen_placement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

// The samples that each of a group's devices runs through the frozen components: where one stage
// holds everything, the samples that the device itself will train on; else an even share.
std::vector<std::vector<SampleRange>> FirstSamples(const PipelineLayout& layout, int quantum,
                                                   int group) {
  const int devices = layout.devices_per_pipeline();
  std::vector<std::vector<SampleRange>> samples(devices);
  if (layout.stages.size() == 1) {
    bool aligned = true;
    for (int i = 0; i < devices; ++i) {
      for (int m = 0; m < layout.num_micro_batches(); ++m) {
        samples[i].push_back(SamplesOf(layout, group, 0, 0, i, m));
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

std::vector<FrozenOutput> Readers(const PipelineLayout& layout, const CostModel& cost) {
  std::vector<FrozenOutput> readers;
  for (int rank = 0; rank < layout.num_devices; ++rank) {
    const Seat seat = SeatOf(layout, rank);
    for (int component : cost.SourcesOf(cost.backbone(), layout.stages[seat.device].layers)) {
      for (int m = 0; m < layout.num_micro_batches(); ++m) {
        readers.push_back(
            {component, rank, SamplesOf(layout, seat.group, 0, seat.device, seat.index, m), 0});
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

// One part of a rank's samples through all components.
void AddChains(const CostModel& cost, int rank, SampleRange samples, std::vector<FillItem>* items) {
  for (int component : cost.frozen_components()) {
    items->push_back({rank, 0, true, component, {}, samples, 0});
    items->push_back({rank, 0, false, component, cost.AllLayers(component), samples, 0});
  }
}

}  // namespace

FrozenPlacement PlaceFrozenFirst(const PipelineLayout& layout, const CostModel& cost, int quantum,
                                 int max_batch) {
  FrozenPlacement placement;
  placement.items.resize(layout.num_devices);
  const int limit =
      max_batch > 0 ? std::max(quantum, max_batch / quantum * quantum) : layout.global_batch();
  for (int rank = 0; rank < layout.num_devices; ++rank) {
    const int group = rank / layout.devices_per_pipeline();
    const auto samples = FirstSamples(layout, quantum, group);
    for (const SampleRange& share : samples[rank % layout.devices_per_pipeline()]) {
      for (int begin = share.begin; begin < share.end; begin += limit) {
        AddChains(cost, rank, {begin, std::min(share.end, begin + limit)}, &placement.items[rank]);
      }
    }
  }
  AddExchange(layout, cost, &placement);
  return placement;
}

absl::StatusOr<FrozenPlacement> PlaceFillItems(const PipelineLayout& layout, const CostModel& cost,
                                               const std::vector<FillItem>& fill) {
  FrozenPlacement placement;
  placement.items.resize(layout.num_devices);
  for (const FillItem& item : fill) {
    if (item.rank < 0 || item.rank >= layout.num_devices) {
      return Bad(absl::StrCat("a fill item is on rank ", item.rank, " of ", layout.num_devices));
    }
    if (item.component < 0 || item.component >= cost.num_components() ||
        item.component == cost.backbone()) {
      return Bad(absl::StrCat("a fill item of rank ", item.rank, " is of component ",
                              item.component, ", which is no frozen one"));
    }
    if (item.step_offset == 0 && item.position != 0) {
      return Bad(absl::StrCat("a fill item of rank ", item.rank,
                              " with step_offset 0 is at position ", item.position,
                              "; this step's frozen work comes first, at 0"));
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
