#include "core/schedule/lowering/lower.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/proto/instruction_parts.h"
#include "core/schedule/file_formats/plan_io.h"
#include "core/schedule/lowering/relaxation.h"
#include "core/schedule/messages/param_gathers.h"
#include "core/schedule/messages/rendezvous.h"
#include "core/schedule/messages/resharding.h"
#include "core/schedule/placement/boundary.h"
#include "core/schedule/placement/weight_groups.h"

namespace dpipe {
namespace {

Instruction* Add(Instruction::Kind kind, DeviceProgram* program) {
  Instruction* instruction = program->add_instructions();
  instruction->set_kind(kind);
  instruction->set_stage(-1);
  instruction->set_component(-1);
  instruction->set_micro_batch(-1);
  instruction->set_peer(-1);
  instruction->set_peer_stage(-1);
  return instruction;
}

// Adds a FLUSH that belongs to the exchange for the next step (step_offset 1): the prologue runs
// it, and the last step does not.
void AddFlush(DeviceProgram* program) { Add(Instruction::FLUSH, program)->set_step_offset(1); }

template <typename R>
void SetRange(const R& range, Range* proto) {
  proto->set_begin(range.begin);
  proto->set_end(range.end);
}

// Checks that no weights are held by several stages: a shard must have exactly one holder.
absl::Status CheckShards(const PipelineLayout& layout) {
  const WeightGroups groups(layout);
  for (int g = 0; g < groups.size(); ++g) {
    const std::vector<int>& stages = groups.group(g).stages;
    if (stages.size() < 2) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("stages ", stages[0], " and ", stages[1],
                     " are copies of the same layers, which cannot be sharded"));
  }
  return absl::OkStatus();
}

class Lowering {
 public:
  Lowering(const PipelineLayout& layout, const Schedule& schedule, const LowerOptions& options,
           int quantum, const FrozenPlacement& frozen, const CostModel& cost)
      : layout_(layout), options_(options), quantum_(quantum), frozen_(frozen), cost_(cost) {
    WorkOptions work;
    work.sync = options.sync;
    work.bucket_bytes = options.bucket_bytes;
    work.recv_lookahead = options.recv_lookahead;
    work.shard = options.shard;
    work.gather = options.gather;
    work.load_cached = options.frozen == FrozenPolicy::kCached;
    work.reduce_each_micro_batch = options.reduce_each_micro_batch;
    work_ = OrderWork(layout, schedule, work, cost);
    for (const ChainPlacement& chain : layout.chains) {
      component_.push_back(BackboneComponent(cost, chain.backbone));
      std::vector<BoundaryStage> stages;
      for (int k = 0; k < chain.num_stages; ++k) {
        const StagePlacement& stage = layout.stages[chain.first_stage + k];
        stages.push_back({stage.layers, stage.device, stage.forward_only});
      }
      boundaries_.emplace_back(cost, component_.back(), stages);
    }
    exchange_of_.resize(layout.num_devices);
    for (size_t i = 0; i < frozen.exchange.size(); ++i) {
      exchange_of_[frozen.exchange[i].from].push_back(static_cast<int>(i));
      exchange_of_[frozen.exchange[i].to].push_back(static_cast<int>(i));
    }
    flush_ = options.flush_exchange &&
             std::any_of(frozen.exchange.begin(), frozen.exchange.end(),
                         [](const FrozenMessage& message) { return message.step_offset == 1; });
  }

  absl::StatusOr<Plan> Make() const {
    Plan plan;
    SetHeader(&plan);
    for (int rank = 0; rank < layout_.num_devices; ++rank) {
      DPIPE_RETURN_IF_ERROR(AddRank(rank, &plan));
    }
    return plan;
  }

 private:
  int ComponentOf(int stage) const { return component_[layout_.stages[stage].chain]; }
  // ZeRO-1 gathers what the optimizer has changed.
  bool KeepsFrozenWeights(int stage) const {
    return options_.gather == GatherPolicy::kOnce &&
           cost_.FrozenStateBytes(ComponentOf(stage), layout_.stages[stage].layers) > 0;
  }

  void SetHeader(Plan* plan) const;
  void AddStages(Plan* plan) const;
  absl::Status AddRank(int rank, Plan* plan) const;
  void AddItem(const RankPosition& position, const WorkItem& item, DeviceProgram* program) const;
  void AddMessages(const RankPosition& position, const WorkItem& item,
                   DeviceProgram* program) const;
  const std::vector<ReshardingMessage>& Resharding(int micro_batch_size, int senders,
                                                   int receivers) const {
    std::vector<ReshardingMessage>& parts = resharding_[{micro_batch_size, senders, receivers}];
    if (parts.empty()) parts = ReshardingMessages(micro_batch_size, senders, receivers);
    return parts;
  }
  void AddFrozen(const FillItem& item, DeviceProgram* program) const;
  void AddExchange(int rank, int step_offset, DeviceProgram* program) const;

  const PipelineLayout& layout_;
  const LowerOptions& options_;
  const int quantum_;
  const FrozenPlacement& frozen_;
  const CostModel& cost_;
  std::vector<std::vector<WorkItem>> work_;    // by device of the schedule
  std::vector<int> component_;                 // by chain
  std::vector<ChainBoundaries> boundaries_;    // by chain
  std::vector<std::vector<int>> exchange_of_;  // by rank: indices of its exchange messages
  bool flush_ = false;
  mutable std::map<std::tuple<int, int, int>, std::vector<ReshardingMessage>> resharding_;
};

void Lowering::SetHeader(Plan* plan) const {
  plan->set_strategy(options_.strategy);
  plan->set_model(cost_.profile().model());
  if (options_.fingerprints) {
    plan->set_profile_fingerprint(Fingerprint(cost_.profile()));
    plan->set_cluster_fingerprint(Fingerprint(cost_.cluster()));
  }
  plan->set_num_devices(layout_.num_devices);
  plan->set_devices_per_pipeline(layout_.devices_per_pipeline());
  plan->set_global_batch(layout_.global_batch());
  plan->set_num_micro_batches(layout_.num_micro_batches());
  plan->set_micro_batch_size(layout_.micro_batch_size());
  plan->set_frozen_quantum(quantum_);
  plan->set_cached_frozen_outputs(options_.frozen == FrozenPolicy::kCached);
  plan->set_global_norm(options_.global_norm);
  plan->set_compression(options_.compression);
  for (const ComponentProfile& profile : cost_.profile().components()) {
    PlanComponent* component = plan->add_components();
    component->set_name(profile.name());
    component->set_is_backbone(profile.is_backbone());
    component->set_num_layers(profile.layers_size());
    for (const ValueProfile& value : profile.values()) {
      if (value.is_output()) component->add_outputs(value.name());
    }
  }
  AddStages(plan);
}

void Lowering::AddStages(Plan* plan) const {
  const std::vector<bool> sharded = ShardedStages(layout_, options_.shard, cost_);
  for (size_t s = 0; s < layout_.stages.size(); ++s) {
    const StagePlacement& place = layout_.stages[s];
    Stage* stage = plan->add_stages();
    stage->set_id(static_cast<int>(s));
    stage->set_component(ComponentOf(static_cast<int>(s)));
    stage->set_chain(place.chain);
    stage->set_forward_only(place.forward_only);
    stage->set_recompute(place.recompute);
    for (int cut : place.recompute_cuts) stage->add_recompute_cuts(cut);
    stage->set_sharded(sharded[s]);
    stage->set_keeps_frozen_weights(sharded[s] && KeepsFrozenWeights(static_cast<int>(s)));
    SetRange(place.layers, stage->mutable_layers());
    for (int g = 0; g < layout_.num_groups(); ++g) {
      for (int i = 0; i < layout_.replicas[place.device]; ++i) {
        stage->add_ranks(RankAt(layout_, {g, place.device, i}));
      }
    }
  }
  for (size_t c = 0; c < layout_.chains.size(); ++c) {
    const ChainPlacement& place = layout_.chains[c];
    PipelineChain* chain = plan->add_chains();
    chain->set_component(component_[c]);
    chain->set_first_stage(place.first_stage);
    chain->set_num_stages(place.num_stages);
    chain->set_num_micro_batches(place.num_micro_batches);
    chain->set_micro_batch_size(place.micro_batch_size);
    chain->set_first_sample(place.first_sample);
  }
}

// Adds one message per rank of the other stage that shares samples with this rank.
void Lowering::AddMessages(const RankPosition& position, const WorkItem& item,
                           DeviceProgram* program) const {
  const ChainPlacement& chain = layout_.chains[layout_.stages[item.stage].chain];
  const int other = layout_.stages[item.peer_stage].device;
  const int boundary = std::min(item.stage, item.peer_stage) - chain.first_stage;
  const ChainBoundaries& boundaries = boundaries_[layout_.stages[item.stage].chain];
  const int64_t bytes =
      item.activation ? boundaries.ForwardBytes(boundary) : boundaries.GradientBytes(boundary);
  const int micro_batch = position.group * layout_.samples_per_group() + chain.first_sample +
                          item.micro_batch * chain.micro_batch_size;  // its first sample
  const int first_rank = RankAt(layout_, {position.group, other, 0});
  const bool sends = item.kind == Instruction::SEND;
  const int own = layout_.replicas[position.device], theirs = layout_.replicas[other];
  for (const ReshardingMessage& part : sends ? Resharding(chain.micro_batch_size, own, theirs)
                                             : Resharding(chain.micro_batch_size, theirs, own)) {
    if ((sends ? part.from : part.to) != position.index) continue;
    Instruction* message = Add(item.kind, program);
    message->set_payload(item.activation ? Instruction::ACTIVATION : Instruction::GRADIENT);
    message->set_stage(item.stage);
    message->set_peer_stage(item.peer_stage);
    message->set_peer(first_rank + (sends ? part.to : part.from));
    message->set_micro_batch(item.micro_batch);
    SetRange(SampleRange{micro_batch + part.samples.begin, micro_batch + part.samples.end},
             message->mutable_samples());
    message->set_bytes(bytes * part.samples.size());
  }
}

void Lowering::AddItem(const RankPosition& position, const WorkItem& item,
                       DeviceProgram* program) const {
  if (IsMessage(item.kind)) return AddMessages(position, item, program);
  Instruction* instruction = Add(item.kind, program);
  if (item.kind == Instruction::LOAD_BATCH) {
    instruction->set_component(ComponentOf(item.stage));
  } else {
    instruction->set_stage(item.stage);
    SetRange(item.layers, instruction->mutable_layers());
  }
  if (item.kind == Instruction::RELEASE_PARAMS) return;
  if (item.kind == Instruction::REDUCE_GRADS) {
    return instruction->set_bytes(cost_.GradientBytes(ComponentOf(item.stage), item.layers));
  }
  if (item.kind == Instruction::GATHER_PARAMS) {
    return instruction->set_bytes(
        GatheredBytes(cost_, ComponentOf(item.stage), item.layers, KeepsFrozenWeights(item.stage)));
  }
  if (item.kind != Instruction::LOAD_BATCH) instruction->set_micro_batch(item.micro_batch);
  SetRange(SamplesOf(layout_, position.group, layout_.stages[item.stage].chain, position.device,
                     position.index, item.micro_batch),
           instruction->mutable_samples());
}

void Lowering::AddFrozen(const FillItem& item, DeviceProgram* program) const {
  Instruction* work =
      Add(item.load ? Instruction::LOAD_BATCH : Instruction::FROZEN_FORWARD, program);
  work->set_component(item.component);
  SetRange(item.samples, work->mutable_samples());
  if (!item.load) SetRange(item.layers, work->mutable_layers());
  work->set_step_offset(item.step_offset);
}

void Lowering::AddExchange(int rank, int step_offset, DeviceProgram* program) const {
  for (int i : exchange_of_[rank]) {
    const FrozenMessage& message = frozen_.exchange[i];
    if (message.step_offset != step_offset) continue;
    const bool sends = message.from == rank;
    Instruction* instruction = Add(sends ? Instruction::SEND : Instruction::RECV, program);
    instruction->set_payload(Instruction::FROZEN_OUTPUT);
    instruction->set_component(message.component);
    instruction->set_peer(sends ? message.to : message.from);
    SetRange(message.samples, instruction->mutable_samples());
    instruction->set_bytes(cost_.OutputBytesPerSample(message.component) * message.samples.size());
    instruction->set_step_offset(step_offset);
  }
}

absl::Status Lowering::AddRank(int rank, Plan* plan) const {
  DeviceProgram* program = plan->add_devices();
  program->set_rank(rank);
  const std::vector<FillItem>& items = frozen_.items[rank];
  // This step's frozen work and the exchange of its outputs come before everything else.
  for (const FillItem& item : items) {
    if (item.step_offset == 0) AddFrozen(item, program);
  }
  AddExchange(rank, 0, program);
  size_t next_item = 0;
  int num_compute = 0;  // instructions of this step's passes and reductions so far
  const auto add_fill = [&] {
    for (; next_item < items.size() && items[next_item].position <= num_compute; ++next_item) {
      if (items[next_item].step_offset != 0) AddFrozen(items[next_item], program);
    }
    ++num_compute;
  };
  const RankPosition position = PositionOf(layout_, rank);
  for (const WorkItem& item : work_[position.device]) {
    if (!IsMessage(item.kind)) add_fill();
    AddItem(position, item, program);
  }
  add_fill();
  if (next_item < items.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a fill item of rank ", rank, " is at position ",
                                                   items[next_item].position, "; the rank has ",
                                                   num_compute, " compute instructions"));
  }
  if (flush_) AddFlush(program);
  AddExchange(rank, 1, program);
  if (flush_) AddFlush(program);
  Add(Instruction::OPTIMIZER_STEP, program);
  return absl::OkStatus();
}

}  // namespace

std::vector<int> ComputeInstructions(const DeviceProgram& program) {
  std::vector<int> indices;
  for (int i = 0; i < program.instructions_size(); ++i) {
    if (!IsMessage(program.instructions(i).kind())) indices.push_back(i);
  }
  return indices;
}

absl::StatusOr<Plan> LowerPlan(const PipelineLayout& layout, const Schedule& schedule,
                               const LowerOptions& options, const CostModel& cost) {
  const int quantum = options.frozen_quantum > 0 ? options.frozen_quantum : cost.frozen_quantum();
  DPIPE_RETURN_IF_ERROR(CheckLayout(layout, cost));
  DPIPE_RETURN_IF_ERROR(CheckLayoutMatchesSchedule(layout, schedule));
  const bool computes_frozen =
      options.frozen != FrozenPolicy::kCached && !cost.frozen_components().empty();
  if (computes_frozen && layout.samples_per_group() % quantum != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pipeline group's ", layout.samples_per_group(),
                     " samples are not a multiple of the frozen quantum, ", quantum));
  }
  if (options.shard != ShardPolicy::kNone) DPIPE_RETURN_IF_ERROR(CheckShards(layout));
  FrozenPlacement frozen;
  frozen.items.resize(layout.num_devices);
  if (options.frozen == FrozenPolicy::kFirst) {
    frozen = PlaceFrozenFirst(layout, cost, quantum, options.max_frozen_batch);
  } else if (options.frozen == FrozenPolicy::kFirstStage) {
    frozen = PlaceFrozenOnFirstStage(layout, cost, quantum, options.max_frozen_batch);
  } else if (options.frozen == FrozenPolicy::kFill) {
    DPIPE_ASSIGN_OR_RETURN(frozen, PlaceFillItems(layout, cost, options.fill));
  }
  DPIPE_ASSIGN_OR_RETURN(Plan plan,
                         Lowering(layout, schedule, options, quantum, frozen, cost).Make());
  if (options.relaxation.has_value()) {
    DPIPE_ASSIGN_OR_RETURN(plan, RelaxPlan(std::move(plan), *options.relaxation, cost));
  }
  OrderMessages(&plan);
  return plan;
}

}  // namespace dpipe
