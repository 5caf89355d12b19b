#include "core/schedule/placement/layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

absl::Status CheckDevices(const PipelineLayout& layout, const CostModel& cost) {
  if (layout.num_devices != cost.num_devices()) {
    return absl::InvalidArgumentError(absl::StrCat("the layout has ", layout.num_devices,
                                                   " devices and the cluster has ",
                                                   cost.num_devices()));
  }
  for (size_t d = 0; d < layout.replicas.size(); ++d) {
    if (layout.replicas[d] >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("device ", d, " of the schedule has ",
                                                   layout.replicas[d],
                                                   " ranks; it needs at least one"));
  }
  const int in_pipeline = layout.devices_per_pipeline();
  if (in_pipeline < 1 || layout.num_devices % in_pipeline != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(layout.num_devices, " devices do not divide into pipelines of ", in_pipeline));
  }
  return absl::OkStatus();
}

// Checks chains and their samples: the chains of a backbone take consecutive samples, and all
// backbones have the same number of samples.
absl::Status CheckChains(const PipelineLayout& layout, const CostModel& cost) {
  if (layout.chains.empty()) return absl::InvalidArgumentError("the layout has no chain of stages");
  std::map<int, int> next_sample;  // by backbone
  int next_stage = 0;
  for (size_t c = 0; c < layout.chains.size(); ++c) {
    const ChainPlacement& chain = layout.chains[c];
    if (chain.num_micro_batches < 1 || chain.micro_batch_size < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(chain.num_micro_batches, " micro-batches of ", chain.micro_batch_size,
                       " samples; there must be at least one of each"));
    }
    if (BackboneComponent(cost, chain.backbone) < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("chain ", c, ": the profile has no backbone number ", chain.backbone));
    }
    if (chain.first_stage != next_stage || chain.num_stages < 1) {
      return absl::InvalidArgumentError(absl::StrCat("chain ", c, ": ", chain.num_stages,
                                                     " stages from ", chain.first_stage,
                                                     "; they must begin at ", next_stage));
    }
    next_stage += chain.num_stages;
    int& sample = next_sample[chain.backbone];
    if (chain.first_sample != sample) {
      return absl::InvalidArgumentError(absl::StrCat("chain ", c, ": its samples begin at ",
                                                     chain.first_sample,
                                                     " of a group; they must begin at ", sample));
    }
    sample += chain.num_micro_batches * chain.micro_batch_size;
  }
  if (next_stage != static_cast<int>(layout.stages.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the chains have ", next_stage, " stages and the layout has ", layout.stages.size()));
  }
  for (const auto& [backbone, samples] : next_sample) {
    if (samples == layout.samples_per_group()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "backbone ", backbone, " trains on ", samples, " samples of a pipeline group and backbone ",
        layout.chains[0].backbone, " on ", layout.samples_per_group()));
  }
  for (const ChainPlacement& chain : layout.chains) {
    for (const ChainPlacement& other : layout.chains) {
      if (other.backbone != chain.backbone || other.micro_batch_size == chain.micro_batch_size) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("chains of backbone ", chain.backbone, " have micro-batches of ",
                       chain.micro_batch_size, " and of ", other.micro_batch_size, " samples"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckStage(const PipelineLayout& layout, int s, int begin) {
  const StagePlacement& stage = layout.stages[s];
  if (stage.device < 0 || stage.device >= static_cast<int>(layout.replicas.size())) {
    return absl::InvalidArgumentError(absl::StrCat("stage ", s, ": device ", stage.device,
                                                   " is not one of the ", layout.replicas.size()));
  }
  if (stage.layers.begin != begin || stage.layers.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("stage ", s, ": layers ",
                                                   stage.layers.ToString(), " must begin at ",
                                                   begin, " and not be empty"));
  }
  DPIPE_RETURN_IF_ERROR(CheckRecomputeCuts(absl::StrCat("stage ", s, ": "), stage.layers,
                                           stage.recompute, stage.recompute_cuts));
  const int size = layout.chains[stage.chain].micro_batch_size;
  const int replicas = layout.replicas[stage.device];
  if (replicas >= 1 && size % replicas == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("stage ", s, ": a micro-batch of ", size,
                                                 " samples is not divisible over ", replicas,
                                                 " ranks"));
}

// Checks the layers of one chain. Forward-only stages must have the same layers and devices as the
// stages of the second lap.
absl::Status CheckCuts(const PipelineLayout& layout, int c, const CostModel& cost) {
  const ChainPlacement& chain = layout.chains[c];
  const int num_layers = cost.num_layers(BackboneComponent(cost, chain.backbone));
  const int end_stage = chain.first_stage + chain.num_stages;
  int next_layer = 0, forward_only = 0;
  for (int s = chain.first_stage; s < end_stage; ++s) {
    const StagePlacement& stage = layout.stages[s];
    if (stage.chain != c) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", s, " belongs to chain ", stage.chain, " and must belong to ", c));
    }
    if (stage.forward_only && forward_only < s - chain.first_stage) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", s, " is forward-only and stage ", s - 1, " is not"));
    }
    forward_only += stage.forward_only;
    if (s == chain.first_stage + forward_only && forward_only > 0) {
      if (next_layer != num_layers) break;
      next_layer = 0;
    }
    DPIPE_RETURN_IF_ERROR(CheckStage(layout, s, next_layer));
    next_layer = stage.layers.end;
  }
  if (next_layer != num_layers) {
    return absl::InvalidArgumentError(
        absl::StrCat("the stages hold ", next_layer, " layers of the backbone's ", num_layers));
  }
  if (forward_only > 0 && 2 * forward_only != chain.num_stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("chain ", c, ": ", forward_only, " forward-only stages before ",
                     chain.num_stages - forward_only, " others; the numbers must be equal"));
  }
  for (int s = chain.first_stage; s < chain.first_stage + forward_only; ++s) {
    const StagePlacement &first = layout.stages[s], &second = layout.stages[s + forward_only];
    if (first.layers == second.layers && first.device == second.device) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("stage ", s, " holds layers ", first.layers.ToString(), " on device ",
                     first.device, " and stage ", s + forward_only, ", its second lap, ",
                     second.layers.ToString(), " on device ", second.device));
  }
  return absl::OkStatus();
}

// Checks that the chains of a backbone are cut alike: their gradients are summed stage by stage.
absl::Status CheckSameCuts(const PipelineLayout& layout) {
  std::map<int, int> first;  // chain, by backbone
  for (int c = 0; c < static_cast<int>(layout.chains.size()); ++c) {
    const ChainPlacement& chain = layout.chains[c];
    const ChainPlacement& model = layout.chains[first.emplace(chain.backbone, c).first->second];
    if (chain.num_stages != model.num_stages) {
      return absl::InvalidArgumentError(absl::StrCat("chain ", c, " has ", chain.num_stages,
                                                     " stages and another of its backbone has ",
                                                     model.num_stages));
    }
    for (int k = 0; k < chain.num_stages; ++k) {
      const StagePlacement& stage = layout.stages[chain.first_stage + k];
      const StagePlacement& other = layout.stages[model.first_stage + k];
      const LayerRange &layers = stage.layers, &others = other.layers;
      if (layers == others && stage.forward_only == other.forward_only) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "stage ", chain.first_stage + k, " holds layers ", layers.ToString(), " and stage ",
          model.first_stage + k, " of the same backbone holds ", others.ToString()));
    }
  }
  return absl::OkStatus();
}

// Checks that no device holds two copies of the same weights.
absl::Status CheckCopies(const PipelineLayout& layout) {
  std::map<std::tuple<int, int, int>, int> first;  // stage, by device, backbone and first layer
  for (int s = 0; s < static_cast<int>(layout.stages.size()); ++s) {
    const StagePlacement& stage = layout.stages[s];
    if (stage.forward_only) continue;
    const auto [entry, added] = first.emplace(
        std::make_tuple(stage.device, layout.chains[stage.chain].backbone, stage.layers.begin), s);
    if (added) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("stages ", entry->second, " and ", s, " hold the same layers ",
                     stage.layers.ToString(), " on device ", stage.device));
  }
  return absl::OkStatus();
}

}  // namespace

int PipelineLayout::devices_per_pipeline() const {
  return std::accumulate(replicas.begin(), replicas.end(), 0);
}

int PipelineLayout::num_micro_batches() const {
  int count = 0;
  for (const ChainPlacement& chain : chains) {
    if (chain.backbone == chains[0].backbone) count += chain.num_micro_batches;
  }
  return count;
}

namespace {

absl::Status CheckSeating(const std::vector<int>& seating, int num_devices) {
  if (seating.empty()) return absl::OkStatus();
  std::vector<bool> seen(num_devices, false);
  for (int device : seating) {
    if (device < 0 || device >= num_devices || seen[device]) {
      return absl::InvalidArgumentError(absl::StrCat("the seating has device ", device, " of ",
                                                     num_devices, " twice, or it is out of range"));
    }
    seen[device] = true;
  }
  if (static_cast<int>(seating.size()) == num_devices) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the seating has ", seating.size(), " of ", num_devices, " devices"));
}

int SeatedAt(const PipelineLayout& layout, int place) {
  return layout.seating.empty() ? place : layout.seating[place];
}

}  // namespace

absl::Status CheckRecomputeCuts(const std::string& where, LayerRange layers, bool recompute,
                                const std::vector<int>& cuts) {
  if (!cuts.empty() && !recompute) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "it has ", cuts.size(),
                     " recompute_cuts and does not recompute; it must have none"));
  }
  int last = layers.begin;
  for (int cut : cuts) {
    if (cut <= last || cut >= layers.end) {
      return absl::InvalidArgumentError(absl::StrCat(where, "recompute_cuts has ", cut, " after ",
                                                     last, "; they must increase inside layers ",
                                                     layers.ToString()));
    }
    last = cut;
  }
  return absl::OkStatus();
}

absl::StatusOr<PipelineLayout> MakeLayout(const Schedule& schedule, const LayoutOptions& options) {
  const auto check = [](const char* what, size_t size, size_t expected, bool optional) {
    if (size == expected || (optional && size == 0)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the schedule has ", expected, " ", what, " and ", size, " are given values"));
  };
  int num_backbones = 0;
  for (const ScheduleChain& chain : schedule.chains()) {
    num_backbones = std::max(num_backbones, chain.backbone + 1);
  }
  DPIPE_RETURN_IF_ERROR(check("stages", options.layers.size(), schedule.num_stages(), false));
  DPIPE_RETURN_IF_ERROR(check("stages", options.recompute.size(), schedule.num_stages(), true));
  DPIPE_RETURN_IF_ERROR(
      check("stages", options.recompute_cuts.size(), schedule.num_stages(), true));
  DPIPE_RETURN_IF_ERROR(check("devices", options.replicas.size(), schedule.num_devices(), true));
  DPIPE_RETURN_IF_ERROR(check("backbones", options.micro_batch_sizes.size(), num_backbones, true));
  DPIPE_RETURN_IF_ERROR(CheckSeating(options.seating, schedule.num_devices()));
  PipelineLayout layout;
  layout.num_devices = options.num_devices;
  layout.replicas = options.replicas;
  layout.seating = options.seating;
  if (layout.replicas.empty()) layout.replicas.assign(schedule.num_devices(), 1);
  for (int s = 0; s < schedule.num_stages(); ++s) {
    layout.stages.push_back(
        {options.layers[s], schedule.ChainOf(s), schedule.DeviceOf(s), schedule.IsForwardOnly(s),
         !options.recompute.empty() && options.recompute[s],
         options.recompute_cuts.empty() ? std::vector<int>() : options.recompute_cuts[s]});
  }
  std::vector<int> next_sample(num_backbones, 0);
  for (size_t c = 0; c < schedule.chains().size(); ++c) {
    const ScheduleChain& chain = schedule.chains()[c];
    const int size =
        options.micro_batch_sizes.empty() ? 1 : options.micro_batch_sizes[chain.backbone];
    int& first_sample = next_sample[chain.backbone];
    layout.chains.push_back({chain.backbone, schedule.FirstStageOf(static_cast<int>(c)),
                             static_cast<int>(chain.devices.size()), chain.num_micro_batches, size,
                             first_sample});
    first_sample += chain.num_micro_batches * size;
  }
  return layout;
}

PipelineLayout StraightLayout(int num_devices, int num_micro_batches, int micro_batch_size,
                              const std::vector<StraightStage>& stages) {
  PipelineLayout layout;
  layout.num_devices = num_devices;
  for (size_t s = 0; s < stages.size(); ++s) {
    layout.replicas.push_back(stages[s].replicas);
    layout.stages.push_back({stages[s].layers, 0, static_cast<int>(s), false, false});
  }
  layout.chains.push_back(
      {0, 0, static_cast<int>(stages.size()), num_micro_batches, micro_batch_size, 0});
  return layout;
}

absl::Status CheckLayout(const PipelineLayout& layout, const CostModel& cost) {
  DPIPE_RETURN_IF_ERROR(CheckChains(layout, cost));
  for (int c = 0; c < static_cast<int>(layout.chains.size()); ++c) {
    DPIPE_RETURN_IF_ERROR(CheckCuts(layout, c, cost));
  }
  DPIPE_RETURN_IF_ERROR(CheckSameCuts(layout));
  DPIPE_RETURN_IF_ERROR(CheckCopies(layout));
  return CheckDevices(layout, cost);
}

absl::Status CheckLayoutMatchesSchedule(const PipelineLayout& layout, const Schedule& schedule) {
  const auto differ = [&](const char* what, int scheduled, int laid_out) {
    return absl::InvalidArgumentError(absl::StrCat("schedule ", schedule.name(), " has ", scheduled,
                                                   " ", what, " and the layout has ", laid_out));
  };
  const int num_stages = static_cast<int>(layout.stages.size());
  const int num_chains = static_cast<int>(layout.chains.size());
  const int num_devices = static_cast<int>(layout.replicas.size());
  if (schedule.num_stages() != num_stages)
    return differ("stages", schedule.num_stages(), num_stages);
  if (schedule.num_devices() != num_devices) {
    return differ("devices", schedule.num_devices(), num_devices);
  }
  if (static_cast<int>(schedule.chains().size()) != num_chains) {
    return differ("chains", static_cast<int>(schedule.chains().size()), num_chains);
  }
  for (int c = 0; c < num_chains; ++c) {
    const ScheduleChain& chain = schedule.chains()[c];
    const ChainPlacement& place = layout.chains[c];
    if (chain.num_micro_batches != place.num_micro_batches) {
      return differ("micro-batches", chain.num_micro_batches, place.num_micro_batches);
    }
    if (chain.backbone != place.backbone || schedule.FirstStageOf(c) != place.first_stage) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule ", schedule.name(), ", chain ", c, ": backbone ", chain.backbone,
                       ", first stage ", schedule.FirstStageOf(c), "; the layout has ",
                       place.backbone, " and ", place.first_stage));
    }
  }
  for (int s = 0; s < num_stages; ++s) {
    const StagePlacement& stage = layout.stages[s];
    if (stage.device == schedule.DeviceOf(s) && stage.chain == schedule.ChainOf(s) &&
        stage.forward_only == schedule.IsForwardOnly(s)) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", schedule.name(), ", stage ", s, ": device ", schedule.DeviceOf(s),
                     ", chain ", schedule.ChainOf(s), "; the layout has device ", stage.device,
                     ", chain ", stage.chain, ", or they differ in whether it is forward-only"));
  }
  return absl::OkStatus();
}

int BackboneComponent(const CostModel& cost, int backbone) {
  for (int c = 0; c < cost.num_components(); ++c) {
    if (cost.profile().components(c).is_backbone() && backbone-- == 0) return c;
  }
  return -1;
}

RankPosition PositionOf(const PipelineLayout& layout, int rank) {
  const int in_pipeline = layout.devices_per_pipeline();
  RankPosition position{rank / in_pipeline, 0, rank % in_pipeline};
  int place = 0;
  for (; position.index >= layout.replicas[SeatedAt(layout, place)]; ++place) {
    position.index -= layout.replicas[SeatedAt(layout, place)];
  }
  position.device = SeatedAt(layout, place);
  return position;
}

int RankAt(const PipelineLayout& layout, const RankPosition& position) {
  int rank = position.group * layout.devices_per_pipeline() + position.index;
  for (int place = 0; SeatedAt(layout, place) != position.device; ++place) {
    rank += layout.replicas[SeatedAt(layout, place)];
  }
  return rank;
}

SampleRange SamplesOf(const PipelineLayout& layout, int group, int chain, int device, int index,
                      int micro_batch) {
  const ChainPlacement& place = layout.chains[chain];
  const int size = place.micro_batch_size / layout.replicas[device];
  const int begin = group * layout.samples_per_group() + place.first_sample +
                    micro_batch * place.micro_batch_size + index * size;
  return {begin, begin + size};
}

}  // namespace dpipe
