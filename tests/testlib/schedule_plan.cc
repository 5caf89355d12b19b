#include "tests/testlib/schedule_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"
#include "core/cost/cost_model.h"
#include "core/cost/testing/fake_profile.h"
#include "core/planner/fill/fill_plan.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/lowering/lower.h"
#include "core/schedule/placement/layout.h"
#include "core/schedule/verification/verify.h"
#include "tests/testlib/training.h"

namespace dpipe::testlib {
namespace {

// Cuts `num_layers` layers into random non-empty parts.
std::vector<LayerRange> Cut(int num_layers, int parts, RandomStream* random) {
  std::set<int> cuts;
  while (static_cast<int>(cuts.size()) < parts - 1) {
    cuts.insert(1 + static_cast<int>(random->NextBelow(num_layers - 1)));
  }
  cuts.insert(num_layers);
  std::vector<LayerRange> ranges;
  int begin = 0;
  for (int end : cuts) ranges.push_back({std::exchange(begin, end), end});
  return ranges;
}

absl::StatusOr<std::vector<LayerRange>> LayersByStage(const nn::Model& model,
                                                      const Schedule& schedule, uint64_t seed) {
  std::vector<LayerRange> layers;
  for (const ScheduleChain& chain : schedule.chains()) {
    if (chain.backbone >= static_cast<int>(model.backbones().size())) {
      return absl::InvalidArgumentError(absl::StrCat("the model has no backbone ", chain.backbone));
    }
    const int num_layers = model.component(model.backbones()[chain.backbone]).program.num_layers();
    const int parts = static_cast<int>(chain.devices.size()) - chain.num_forward_only;
    if (parts > num_layers) {
      return absl::InvalidArgumentError(absl::StrCat(parts, " stages of ", num_layers, " layers"));
    }
    RandomStream random(seed, chain.backbone, 0, RandomPurpose::kTest);  // twins have the same cuts
    const std::vector<LayerRange> cut = Cut(num_layers, parts, &random);
    if (chain.num_forward_only > 0) layers.insert(layers.end(), cut.begin(), cut.end());
    layers.insert(layers.end(), cut.begin(), cut.end());
  }
  return layers;
}

class DirectPlanner {
 public:
  DirectPlanner(const nn::Model& model, const Schedule& schedule, const PipelineLayout& layout,
                bool sharded)
      : model_(model), schedule_(schedule), layout_(layout), sharded_(sharded) {}

  Plan Make() {
    AddHeader();
    AddStages();
    for (int rank = 0; rank < layout_.num_devices; ++rank) AddRank(rank);
    return std::move(plan_);
  }

 private:
  int ComponentOf(int chain) const { return model_.backbones()[layout_.chains[chain].backbone]; }

  void AddHeader() {
    plan_.set_strategy(schedule_.name());
    plan_.set_model(model_.name());
    plan_.set_num_devices(layout_.num_devices);
    plan_.set_devices_per_pipeline(layout_.devices_per_pipeline());
    plan_.set_global_batch(layout_.global_batch());
    plan_.set_num_micro_batches(layout_.num_micro_batches());
    plan_.set_micro_batch_size(layout_.micro_batch_size());
    plan_.set_frozen_quantum(1);
    plan_.set_global_norm(true);
    for (int i = 0; i < model_.num_components(); ++i) {
      PlanComponent* component = plan_.add_components();
      component->set_name(model_.component(i).name);
      component->set_is_backbone(model_.component(i).is_backbone);
      component->set_num_layers(model_.component(i).program.num_layers());
    }
  }

  void AddStages() {
    for (size_t c = 0; c < layout_.chains.size(); ++c) {
      const ChainPlacement& place = layout_.chains[c];
      PipelineChain* chain = plan_.add_chains();
      chain->set_component(ComponentOf(static_cast<int>(c)));
      chain->set_first_stage(place.first_stage);
      chain->set_num_stages(place.num_stages);
      chain->set_num_micro_batches(place.num_micro_batches);
      chain->set_micro_batch_size(place.micro_batch_size);
      chain->set_first_sample(place.first_sample);
    }
    for (size_t s = 0; s < layout_.stages.size(); ++s) {
      const StagePlacement& place = layout_.stages[s];
      Stage* stage = plan_.add_stages();
      stage->set_id(static_cast<int>(s));
      stage->set_component(ComponentOf(place.chain));
      stage->mutable_layers()->set_begin(place.layers.begin);
      stage->mutable_layers()->set_end(place.layers.end);
      stage->set_chain(place.chain);
      stage->set_forward_only(place.forward_only);
      stage->set_sharded(sharded_);
      stage->set_recompute(place.recompute);
      for (int cut : place.recompute_cuts) stage->add_recompute_cuts(cut);
      for (int g = 0; g < layout_.num_groups(); ++g) {
        for (int i = 0; i < layout_.replicas[place.device]; ++i) {
          stage->add_ranks(RankAt(layout_, {g, place.device, i}));
        }
      }
    }
  }

  Instruction* Add(Instruction::Kind kind, SampleRange samples) {
    Instruction* instruction = plan_.mutable_devices()->rbegin()->add_instructions();
    instruction->set_kind(kind);
    instruction->set_stage(-1);
    instruction->set_component(-1);
    instruction->set_micro_batch(-1);
    instruction->set_peer(-1);
    instruction->set_peer_stage(-1);
    instruction->mutable_samples()->set_begin(samples.begin);
    instruction->mutable_samples()->set_end(samples.end);
    return instruction;
  }

  void AddRank(int rank) {
    plan_.add_devices()->set_rank(rank);
    const RankPosition position = PositionOf(layout_, rank);
    const int in_group = layout_.samples_per_group();
    const SampleRange group{position.group * in_group, (position.group + 1) * in_group};
    for (int i = 0; i < model_.num_components(); ++i) {
      if (model_.component(i).is_backbone) continue;
      Add(Instruction::LOAD_BATCH, group)->set_component(i);
      Instruction* frozen = Add(Instruction::FROZEN_FORWARD, group);
      frozen->set_component(i);
      frozen->mutable_layers()->set_end(model_.component(i).program.num_layers());
    }
    for (const Slot& slot : schedule_.slots(position.device)) AddSlot(position, slot);
    if (!sharded_) AddReductions(position);
    Add(Instruction::OPTIMIZER_STEP, {});
  }

  void AddSlot(const RankPosition& position, const Slot& slot) {
    const StagePlacement& place = layout_.stages[slot.stage];
    const bool forward = slot.pass == Pass::kForward;
    const bool message = slot.pass != Pass::kWeightGrad;
    const Instruction::Kind kind = forward                         ? Instruction::FORWARD
                                   : slot.pass == Pass::kBackward  ? Instruction::BACKWARD
                                   : slot.pass == Pass::kInputGrad ? Instruction::INPUT_GRAD
                                                                   : Instruction::WEIGHT_GRAD;
    const bool again = !forward && message && place.recompute;
    std::vector<LayerRange> blocks = {place.layers};
    if (again) blocks = BlocksOf(place.layers, place.recompute_cuts);
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      if (again) AddPass(Instruction::RECOMPUTE, position, slot, *block);
      if (message && block == blocks.rbegin()) {
        AddMessages(Instruction::RECV, position, slot, forward);
      }
      AddPass(kind, position, slot, *block);
    }
    if (message) AddMessages(Instruction::SEND, position, slot, forward);
  }

  SampleRange Samples(const RankPosition& position, const Slot& slot) const {
    const StagePlacement& place = layout_.stages[slot.stage];
    return SamplesOf(layout_, position.group, place.chain, position.device, position.index,
                     slot.micro_batch);
  }

  // Adds a pass over `layers` of the stage. If it is sharded, its halves have separate passes.
  void AddPass(Instruction::Kind kind, const RankPosition& position, const Slot& slot,
               LayerRange layers) {
    const LayerRange stage = layout_.stages[slot.stage].layers;
    const int middle = sharded_ ? (stage.begin + stage.end) / 2 : stage.begin;
    std::vector<LayerRange> halves = {{stage.begin, middle}, {middle, stage.end}};
    const bool forward = kind == Instruction::FORWARD || kind == Instruction::RECOMPUTE;
    if (!forward) std::swap(halves[0], halves[1]);
    for (LayerRange half : halves) {
      const LayerRange part = half.Intersect(layers);
      if (!part.empty()) AddPart(kind, position, slot, part);
    }
  }

  void AddPart(Instruction::Kind kind, const RankPosition& position, const Slot& slot,
               LayerRange layers) {
    if (sharded_) AddCollective(Instruction::GATHER_PARAMS, slot.stage, layers);
    Instruction* pass = Add(kind, Samples(position, slot));
    pass->set_stage(slot.stage);
    pass->set_micro_batch(slot.micro_batch);
    pass->mutable_layers()->set_begin(layers.begin);
    pass->mutable_layers()->set_end(layers.end);
    if (!sharded_) return;
    if (ComputesWeightGrad(kind)) {
      AddCollective(Instruction::REDUCE_GRADS, slot.stage, layers);
    }
    AddCollective(Instruction::RELEASE_PARAMS, slot.stage, layers);
  }

  void AddCollective(Instruction::Kind kind, int stage, LayerRange layers) {
    Instruction* instruction = Add(kind, {});
    instruction->set_stage(stage);
    instruction->mutable_layers()->set_begin(layers.begin);
    instruction->mutable_layers()->set_end(layers.end);
  }

  void AddMessages(Instruction::Kind kind, const RankPosition& position, const Slot& slot,
                   bool forward) {
    const bool to_next = (kind == Instruction::SEND) == forward;
    const int other = to_next ? schedule_.Next(slot.stage) : schedule_.Previous(slot.stage);
    if (other < 0 || schedule_.DeviceOf(other) == position.device) return;
    if (!forward && plan_.stages(to_next ? slot.stage : other).forward_only()) return;
    if (!forward && plan_.stages(to_next ? other : slot.stage).forward_only()) return;
    const int device = schedule_.DeviceOf(other);
    for (int i = 0; i < layout_.replicas[device]; ++i) {
      const Slot there{slot.pass, slot.micro_batch, other};
      const SampleRange common =
          Samples(position, slot).Intersect(Samples({position.group, device, i}, there));
      if (common.empty()) continue;
      Instruction* message = Add(kind, common);
      message->set_payload(forward ? Instruction::ACTIVATION : Instruction::GRADIENT);
      message->set_stage(slot.stage);
      message->set_micro_batch(slot.micro_batch);
      message->set_peer_stage(other);
      message->set_peer(RankAt(layout_, {position.group, device, i}));
    }
  }

  // Adds one reduction per layer range that several ranks hold, in the same order everywhere.
  void AddReductions(const RankPosition& position) {
    std::map<std::pair<int, int>, std::set<int>> holders;  // by component and first layer
    std::map<std::pair<int, int>, int> own;                // stage of this rank
    for (const Stage& stage : plan_.stages()) {
      if (stage.forward_only()) continue;
      const std::pair<int, int> key(stage.component(), stage.layers().begin());
      holders[key].insert(stage.ranks().begin(), stage.ranks().end());
      if (schedule_.DeviceOf(stage.id()) == position.device) own.emplace(key, stage.id());
    }
    for (const auto& [key, stage] : own) {
      if (holders[key].size() == 1) continue;
      AddCollective(Instruction::REDUCE_GRADS, stage, layout_.stages[stage].layers);
    }
  }

  const nn::Model& model_;
  const Schedule& schedule_;
  const PipelineLayout& layout_;
  const bool sharded_;
  Plan plan_;
};

absl::StatusOr<PipelineLayout> LayoutOf(const nn::Model& model, const Schedule& schedule,
                                        const SchedulePlanOptions& options) {
  LayoutOptions layout;
  DPIPE_ASSIGN_OR_RETURN(layout.layers, LayersByStage(model, schedule, options.seed));
  layout.replicas = options.replicas;
  const int devices = options.replicas.empty()
                          ? schedule.num_devices()
                          : std::accumulate(options.replicas.begin(), options.replicas.end(), 0);
  layout.num_devices = devices * options.num_groups;
  layout.micro_batch_sizes = options.micro_batch_sizes;
  for (int s = 0; s < schedule.num_stages(); ++s) {
    layout.recompute.push_back(options.recompute && !schedule.IsForwardOnly(s));
    std::vector<int>& cuts = layout.recompute_cuts.emplace_back();
    const LayerRange layers = layout.layers[s];
    const int blocks = std::min(options.recompute_blocks, layers.size());
    if (!layout.recompute[s] || blocks < 2) continue;
    RandomStream random(options.seed, s, 1, RandomPurpose::kTest);
    for (const LayerRange& block : Cut(layers.size(), blocks, &random)) {
      if (block.begin > 0) cuts.push_back(layers.begin + block.begin);
    }
  }
  return MakeLayout(schedule, layout);
}

absl::StatusOr<Plan> Filled(const PipelineLayout& layout, const Schedule& schedule,
                            const LowerOptions& lower, const SchedulePlanOptions& options,
                            const CostModel& cost) {
  FillOptions fill;
  fill.heavy_components = {cost.frozen_components().back()};
  fill.hosts = options.frozen_hosts;
  DPIPE_ASSIGN_OR_RETURN(FilledPlan filled, FillPlan(layout, schedule, lower, fill, cost));
  return std::move(filled.plan);
}

}  // namespace

absl::StatusOr<Plan> MakeLoweredPlan(const nn::Model& model, DType dtype, const Schedule& schedule,
                                     const SchedulePlanOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const PipelineLayout layout, LayoutOf(model, schedule, options));
  const ModelProfile profile =
      SyntheticProfile(model, dtype, options.frozen_quantum, {1, 2, 4, 8}, 3);
  DPIPE_ASSIGN_OR_RETURN(const CostModel cost,
                         CostModel::Create(profile, IdealCluster(layout.num_devices)));
  LowerOptions lower;
  lower.bucket_bytes = 8192;  // several buckets per stage
  if (options.sharded) lower.shard = ShardPolicy::kBuckets;
  if (options.gathers_once) lower.gather = GatherPolicy::kOnce;
  lower.recv_lookahead = options.recv_lookahead;
  lower.reduce_each_micro_batch = options.reduce_each_micro_batch;
  DPIPE_ASSIGN_OR_RETURN(Plan plan, options.frozen_hosts.empty()
                                        ? LowerPlan(layout, schedule, lower, cost)
                                        : Filled(layout, schedule, lower, options, cost));
  DPIPE_RETURN_IF_ERROR(VerifyPlan(plan, cost));
  return plan;
}

absl::StatusOr<Plan> MakeDirectPlan(const nn::Model& model, const Schedule& schedule,
                                    const SchedulePlanOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const PipelineLayout layout, LayoutOf(model, schedule, options));
  return DirectPlanner(model, schedule, layout, options.sharded).Make();
}

}  // namespace dpipe::testlib
