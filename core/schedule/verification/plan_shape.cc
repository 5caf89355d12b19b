#include "core/schedule/verification/plan_shape.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/file_formats/plan_io.h"
#include "core/schedule/lowering/relaxation.h"
#include "core/schedule/placement/layout.h"

namespace dpipe {
namespace {

template <typename T, typename U>
absl::Status Same(const std::string& what, const T& planned, const U& expected) {
  if (planned == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is ", planned, " and must be ", expected));
}

absl::Status CheckHeader(const Plan& plan, const CostModel& cost) {
  DPIPE_RETURN_IF_ERROR(Same("the plan was made for another profile: profile_fingerprint",
                             plan.profile_fingerprint(), Fingerprint(cost.profile())));
  DPIPE_RETURN_IF_ERROR(Same("the plan was made for another cluster: cluster_fingerprint",
                             plan.cluster_fingerprint(), Fingerprint(cost.cluster())));
  DPIPE_RETURN_IF_ERROR(Same("num_devices", plan.num_devices(), cost.num_devices()));
  DPIPE_RETURN_IF_ERROR(
      Same("the number of device programs", plan.devices_size(), cost.num_devices()));
  for (int r = 0; r < plan.devices_size(); ++r) {
    DPIPE_RETURN_IF_ERROR(Same(absl::StrCat("devices[", r, "].rank"), plan.devices(r).rank(), r));
  }
  const int in_pipeline = plan.devices_per_pipeline();
  if (in_pipeline < 1 || plan.num_devices() % in_pipeline != 0) {
    return absl::InvalidArgumentError(absl::StrCat("devices_per_pipeline is ", in_pipeline,
                                                   " and must divide ", plan.num_devices()));
  }
  if (plan.num_micro_batches() < 1 || plan.micro_batch_size() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(plan.num_micro_batches(), " micro-batches of ",
                                                   plan.micro_batch_size(),
                                                   " samples; there must be at least one of each"));
  }
  if (plan.frozen_quantum() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("frozen_quantum is ", plan.frozen_quantum(), " and must be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckComponents(const Plan& plan, const CostModel& cost) {
  DPIPE_RETURN_IF_ERROR(
      Same("the number of components", plan.components_size(), cost.num_components()));
  for (int c = 0; c < plan.components_size(); ++c) {
    const PlanComponent& planned = plan.components(c);
    const ComponentProfile& profile = cost.profile().components(c);
    const std::string where = absl::StrCat("component ", c, ": ");
    DPIPE_RETURN_IF_ERROR(Same(where + "name", planned.name(), profile.name()));
    DPIPE_RETURN_IF_ERROR(
        Same(where + "is_backbone", int{planned.is_backbone()}, int{profile.is_backbone()}));
    DPIPE_RETURN_IF_ERROR(Same(where + "num_layers", planned.num_layers(), profile.layers_size()));
    int outputs = 0;
    for (const ValueProfile& value : profile.values()) {
      if (!value.is_output()) continue;
      const std::string planned_name =
          outputs < planned.outputs_size() ? planned.outputs(outputs) : "";
      DPIPE_RETURN_IF_ERROR(
          Same(absl::StrCat(where, "outputs[", outputs, "]"), planned_name, value.name()));
      ++outputs;
    }
    DPIPE_RETURN_IF_ERROR(Same(where + "the number of outputs", planned.outputs_size(), outputs));
  }
  return absl::OkStatus();
}

absl::Status Within(const std::string& where, const char* what, int64_t value, int64_t count) {
  if (0 <= value && value < count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, what, " is ", value, " and must be in [0, ", count, ")"));
}

// Checks that chains partition the stages in order, and that the chains of a backbone partition a
// group's samples.
absl::Status CheckChains(const Plan& plan, const CostModel& cost) {
  if (plan.chains_size() == 0) return absl::InvalidArgumentError("the plan has no chain of stages");
  DPIPE_RETURN_IF_ERROR(Same("chain 0: component", plan.chains(0).component(), cost.backbone()));
  std::vector<int64_t> next_sample(cost.num_components(), 0);
  std::vector<int> first_chain(cost.num_components(), -1);
  int next_stage = 0;
  for (int c = 0; c < plan.chains_size(); ++c) {
    const PipelineChain& chain = plan.chains(c);
    const std::string where = absl::StrCat("chain ", c, ": ");
    DPIPE_RETURN_IF_ERROR(Within(where, "component", chain.component(), cost.num_components()));
    if (!cost.IsBackbone(chain.component())) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "component ", chain.component(), " is not a backbone"));
    }
    DPIPE_RETURN_IF_ERROR(Same(where + "first_stage", chain.first_stage(), next_stage));
    if (chain.num_stages() < 1 || chain.num_stages() > plan.stages_size() - next_stage ||
        chain.num_micro_batches() < 1 || chain.micro_batch_size() < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, chain.num_stages(), " of ", plan.stages_size() - next_stage,
                       " stages left, ", chain.num_micro_batches(), " micro-batches of ",
                       chain.micro_batch_size(), " samples; there must be at least one of each"));
    }
    next_stage += chain.num_stages();
    int64_t& sample = next_sample[chain.component()];
    DPIPE_RETURN_IF_ERROR(Same(where + "first_sample", int64_t{chain.first_sample()}, sample));
    sample += int64_t{chain.num_micro_batches()} * chain.micro_batch_size();
    int& first = first_chain[chain.component()];
    if (first < 0) first = c;
    DPIPE_RETURN_IF_ERROR(
        Same(where + "num_stages", chain.num_stages(), plan.chains(first).num_stages()));
    DPIPE_RETURN_IF_ERROR(Same(where + "micro_batch_size", chain.micro_batch_size(),
                               plan.chains(first).micro_batch_size()));
  }
  DPIPE_RETURN_IF_ERROR(
      Same("the total number of stages in all chains", next_stage, plan.stages_size()));
  DPIPE_RETURN_IF_ERROR(
      Same("micro_batch_size", plan.micro_batch_size(), plan.chains(0).micro_batch_size()));
  for (int component : cost.backbones()) {
    DPIPE_RETURN_IF_ERROR(
        Same(absl::StrCat("component ", component,
                          ": the number of samples per pipeline group in its chains"),
             next_sample[component], int64_t{plan.num_micro_batches()} * plan.micro_batch_size()));
  }
  return absl::OkStatus();
}

absl::Status CheckBatch(const Plan& plan) {
  const int64_t batch = static_cast<int64_t>(plan.num_devices() / plan.devices_per_pipeline()) *
                        plan.num_micro_batches() * plan.micro_batch_size();
  return Same("global_batch", int64_t{plan.global_batch()}, batch);
}

}  // namespace

std::string InstructionName(const Plan& plan, int rank, int index) {
  return absl::StrCat("rank ", rank, ", instruction ", index, " (",
                      Instruction::Kind_Name(plan.devices(rank).instructions(index).kind()), "): ");
}

absl::StatusOr<PlanShape> PlanShape::Create(const Plan& plan, const CostModel& cost) {
  DPIPE_RETURN_IF_ERROR(CheckHeader(plan, cost));
  DPIPE_RETURN_IF_ERROR(CheckComponents(plan, cost));
  DPIPE_RETURN_IF_ERROR(CheckBatch(plan));
  DPIPE_RETURN_IF_ERROR(CheckChains(plan, cost));
  PlanShape shape;
  shape.samples_per_group_ = plan.num_micro_batches() * plan.micro_batch_size();
  shape.positions_.resize(plan.num_devices(), {0, /*device=*/-1, 0});
  for (const PipelineChain& chain : plan.chains()) {
    shape.chains_.push_back(
        {chain.first_stage(), chain.num_stages(), chain.micro_batch_size(), chain.first_sample()});
  }
  DPIPE_RETURN_IF_ERROR(shape.AddStages(plan, cost));
  for (int r = 0; r < plan.num_devices(); ++r) {
    if (shape.positions_[r].device < 0)
      return absl::InvalidArgumentError(absl::StrCat("rank ", r, " holds no stage"));
  }
  DPIPE_RETURN_IF_ERROR(shape.CheckLaps());
  DPIPE_RETURN_IF_ERROR(shape.CheckSameCuts(plan));
  shape.weights_.emplace(plan);
  DPIPE_RETURN_IF_ERROR(shape.CheckWeights());
  shape.LinkStages(plan, cost);
  DPIPE_RETURN_IF_ERROR(CheckRelaxation(plan));
  shape.relaxation_ = plan.relaxation();
  return shape;
}

absl::Status PlanShape::AddStages(const Plan& plan, const CostModel& cost) {
  for (int c = 0; c < plan.chains_size(); ++c) {
    const PipelineChain& chain = plan.chains(c);
    const int num_layers = cost.num_layers(chain.component());
    int next_layer = 0;
    for (int s = chain.first_stage(); s < chain.first_stage() + chain.num_stages(); ++s) {
      const Stage& stage = plan.stages(s);
      const std::string where = absl::StrCat("stage ", s, ": ");
      DPIPE_RETURN_IF_ERROR(Same(where + "id", stage.id(), s));
      DPIPE_RETURN_IF_ERROR(Same(where + "chain", stage.chain(), c));
      DPIPE_RETURN_IF_ERROR(Same(where + "component", stage.component(), chain.component()));
      // After the forward-only stages, the second lap starts again at layer 0.
      const bool second_lap = s > chain.first_stage() && plan.stages(s - 1).forward_only() &&
                              !stage.forward_only() && next_layer == num_layers;
      if (second_lap) next_layer = 0;
      DPIPE_RETURN_IF_ERROR(Same(where + "layers.begin", stage.layers().begin(), next_layer));
      if (stage.layers().end() <= next_layer || stage.layers().end() > num_layers) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, "layers [", next_layer, ", ", stage.layers().end(),
                         ") must be non-empty and within [0, ", num_layers, ")"));
      }
      next_layer = stage.layers().end();
      if (stage.recompute() && stage.forward_only()) {
        return absl::InvalidArgumentError(
            where + "a forward-only stage cannot recompute, as it has no backward pass");
      }
      DPIPE_RETURN_IF_ERROR(
          CheckRecomputeCuts(where, LayersIn(stage), stage.recompute(),
                             {stage.recompute_cuts().begin(), stage.recompute_cuts().end()}));
      DPIPE_RETURN_IF_ERROR(AddDevice(plan, s));
    }
    DPIPE_RETURN_IF_ERROR(
        Same(absl::StrCat("chain ", c, ": the last stage's layers.end"), next_layer, num_layers));
  }
  return absl::OkStatus();
}

// Checks that a stage's ranks are exactly those of another stage, or disjoint from all others.
absl::Status PlanShape::AddDevice(const Plan& plan, int s) {
  const Stage& stage = plan.stages(s);
  const std::string where = absl::StrCat("stage ", s, ": ");
  const int num_groups = plan.num_devices() / plan.devices_per_pipeline();
  const int size = plan.chains(stage.chain()).micro_batch_size();
  const int replicas = stage.ranks_size() / num_groups;
  if (replicas < 1 || stage.ranks_size() % num_groups != 0 || size % replicas != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, stage.ranks_size(), " ranks over ", num_groups,
                     " pipeline groups cannot share micro-batches of ", size, " samples evenly"));
  }
  for (int i = 0; i < stage.ranks_size(); ++i) {
    const int rank = stage.ranks(i), group = i / replicas;
    DPIPE_RETURN_IF_ERROR(Within(where, "rank", rank, plan.num_devices()));
    if (rank / plan.devices_per_pipeline() != group || (i > 0 && rank <= stage.ranks(i - 1))) {
      return absl::InvalidArgumentError(absl::StrCat(where, "rank ", rank, " at place ", i,
                                                     " is not in pipeline group ", group,
                                                     " or not in order"));
    }
  }
  int device = positions_[stage.ranks(0)].device;
  const std::vector<int> ranks(stage.ranks().begin(), stage.ranks().end());
  if (device < 0) {
    device = static_cast<int>(devices_.size());
    for (int i = 0; i < stage.ranks_size(); ++i) {
      RankPosition& position = positions_[ranks[i]];
      if (position.device >= 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", ranks[i], " holds stage ", devices_[position.device].stages[0],
                         " and stage ", s, ", whose other ranks differ"));
      }
      position = {i / replicas, device, i % replicas};
    }
    devices_.push_back({ranks, replicas, {}});
  } else if (devices_[device].ranks != ranks) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", ranks[0], " holds stage ",
                                                   devices_[device].stages[0], " and stage ", s,
                                                   ", whose other ranks differ"));
  }
  devices_[device].stages.push_back(s);
  StageShape shape;
  shape.chain = stage.chain();
  shape.component = stage.component();
  shape.device = device;
  shape.layers = LayersIn(stage);
  shape.forward_only = stage.forward_only();
  if (stage.recompute()) shape.blocks = BlocksOf(stage);
  shape.sharded = stage.sharded();
  shape.keeps_frozen_weights = stage.keeps_frozen_weights();
  if (shape.keeps_frozen_weights && !shape.sharded) {
    return absl::InvalidArgumentError(
        absl::StrCat("stage ", s, " keeps frozen weights, but is not sharded"));
  }
  shape.num_micro_batches = plan.chains(stage.chain()).num_micro_batches();
  stages_.push_back(std::move(shape));
  return absl::OkStatus();
}

// Checks that a chain's forward-only stages are its first half and match the second half.
absl::Status PlanShape::CheckLaps() const {
  for (const ChainShape& chain : chains_) {
    const int end = chain.first_stage + chain.num_stages;
    int laps_end = chain.first_stage;
    while (laps_end < end && stages_[laps_end].forward_only) ++laps_end;
    const int lap = laps_end - chain.first_stage;
    if (lap > 0 && 2 * lap != chain.num_stages) {
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", chain.first_stage, ": ", lap, " of the chain's ", chain.num_stages,
                       " stages are forward-only; none or half must be"));
    }
    for (int s = laps_end; s < end; ++s) {
      if (stages_[s].forward_only) {
        return absl::InvalidArgumentError(
            absl::StrCat("stage ", s, " is forward-only and stage ", s - 1, " is not"));
      }
      if (lap == 0) continue;
      const StageShape& first = stages_[s - lap];
      if (first.layers != stages_[s].layers || first.device != stages_[s].device) {
        return absl::InvalidArgumentError(absl::StrCat(
            "stage ", s - lap, " holds layers ", first.layers.ToString(), " and stage ", s,
            ", its second lap, ", stages_[s].layers.ToString(), ", or they have other ranks"));
      }
    }
  }
  return absl::OkStatus();
}

// Gradients of a backbone's chains are summed stage by stage, so the chains must have equal cuts.
absl::Status PlanShape::CheckSameCuts(const Plan& plan) const {
  std::map<int, int> first_chain;  // by component
  for (int c = 0; c < static_cast<int>(chains_.size()); ++c) {
    const int component = plan.chains(c).component();
    const ChainShape& first = chains_[first_chain.emplace(component, c).first->second];
    for (int k = 0; k < chains_[c].num_stages; ++k) {
      const int s = chains_[c].first_stage + k, model = first.first_stage + k;
      if (stages_[s].layers == stages_[model].layers &&
          stages_[s].forward_only == stages_[model].forward_only) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("stage ", s, " holds layers ", stages_[s].layers.ToString(), " and stage ",
                       model, " of another chain of its backbone ",
                       stages_[model].layers.ToString(), ", or one of them is forward-only"));
    }
  }
  return absl::OkStatus();
}

absl::Status PlanShape::CheckWeights() const {
  for (int g = 0; g < weights_->size(); ++g) {
    std::map<int, int> first_stage;  // by device
    for (int s : weights_->group(g).stages) {
      const auto [first, is_new] = first_stage.emplace(stages_[s].device, s);
      if (is_new) continue;
      return absl::InvalidArgumentError(absl::StrCat("stages ", first->second, " and ", s,
                                                     " hold the same layers on the same ranks"));
    }
  }
  for (int s = 0; s < num_stages(); ++s) {
    const int lap = stages_[s].forward_only ? chains_[stages_[s].chain].num_stages / 2 : 0;
    const WeightGroup& group = weights_->GroupOf(s);
    const bool sharded = stages_[s + lap].sharded;
    DPIPE_RETURN_IF_ERROR(
        Same(absl::StrCat("stage ", s, ": sharded"), int{stages_[s].sharded}, int{sharded}));
    if (!sharded || (group.stages.size() == 1 && group.ranks.size() > 1)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "stage ", s, " is sharded, and its layers have ", group.stages.size(), " copies on ",
        group.ranks.size(), " ranks; sharding needs one copy on several ranks"));
  }
  return absl::OkStatus();
}

void PlanShape::LinkStages(const Plan& plan, const CostModel& cost) {
  for (int c = 0; c < static_cast<int>(chains_.size()); ++c) {
    const int first = chains_[c].first_stage;
    for (int s = first; s < first + chains_[c].num_stages; ++s) {
      StageShape& stage = stages_[s];
      stage.previous = s > first ? s - 1 : -1;
      stage.next = s + 1 < first + chains_[c].num_stages ? s + 1 : -1;
      stage.local_previous = s > first && stages_[s - 1].device == stage.device;
      stage.local_next = stage.next >= 0 && stages_[s + 1].device == stage.device;
    }
    boundaries_.push_back(BoundariesOf(plan, c, cost));
  }
}

int64_t PlanShape::ForwardBytes(int stage) const {
  const int chain = stages_[stage].chain;
  return boundaries_[chain].ForwardBytes(stage - chains_[chain].first_stage);
}

int64_t PlanShape::GradientBytes(int stage) const {
  const int chain = stages_[stage].chain;
  return boundaries_[chain].GradientBytes(stage - 1 - chains_[chain].first_stage);
}

SampleRange PlanShape::SamplesOf(int rank, int stage, int micro_batch) const {
  const RankPosition& position = positions_[rank];
  const ChainShape& chain = chains_[stages_[stage].chain];
  const int size = chain.micro_batch_size / devices_[position.device].replicas;
  const int begin = position.group * samples_per_group_ + chain.first_sample +
                    micro_batch * chain.micro_batch_size + position.index * size;
  return {begin, begin + size};
}

}  // namespace dpipe
