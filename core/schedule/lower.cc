#include "core/schedule/lower.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/schedule/plan_io.h"
#include "core/schedule/recv_positions.h"
#include "core/schedule/rendezvous.h"

namespace dpipe {
namespace {

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

Instruction Blank(Instruction::Kind kind) {
  Instruction instruction;
  instruction.set_kind(kind);
  instruction.set_stage(-1);
  instruction.set_component(-1);
  instruction.set_micro_batch(-1);
  instruction.set_peer(-1);
  instruction.set_peer_stage(-1);
  return instruction;
}

// It belongs to the exchange: the prologue has it and the last step does not.
Instruction Flush() {
  Instruction flush = Blank(Instruction::FLUSH);
  flush.set_step_offset(1);
  return flush;
}

template <typename R>
void SetRange(const R& range, Range* proto) {
  proto->set_begin(range.begin);
  proto->set_end(range.end);
}

bool IsMessage(const Instruction& instruction) {
  return instruction.kind() == Instruction::SEND || instruction.kind() == Instruction::RECV;
}

absl::Status CheckFit(const PipelineLayout& layout, const Schedule& schedule, int quantum,
                      const LowerOptions& options, const CostModel& cost) {
  if (schedule.num_stages() != static_cast<int>(layout.stages.size()) ||
      schedule.num_micro_batches() != layout.num_micro_batches()) {
    return Bad(absl::StrCat("schedule ", schedule.name(), " has ", schedule.num_stages(),
                            " stages and ", schedule.num_micro_batches(),
                            " micro-batches; the layout has ", layout.stages.size(), " and ",
                            layout.num_micro_batches()));
  }
  const bool computes_frozen =
      options.frozen != FrozenPolicy::kCached && !cost.frozen_components().empty();
  if (computes_frozen && layout.samples_per_group() % quantum != 0) {
    return Bad(absl::StrCat("a pipeline group's ", layout.samples_per_group(),
                            " samples are no multiple of the frozen quantum, ", quantum));
  }
  return absl::OkStatus();
}

// What a rank does around one slot of the schedule.
struct SlotWork {
  std::vector<Instruction> recvs;  // posted before the slot, for it or for a later one
  std::vector<Instruction> computes;
  std::vector<Instruction> sends;
  std::vector<Instruction> tail;  // REDUCE_GRADS that come after the sends
};

class Lowering {
 public:
  Lowering(const PipelineLayout& layout, const Schedule& schedule, const LowerOptions& options,
           int quantum, const FrozenPlacement& frozen, const CostModel& cost)
      : layout_(layout),
        schedule_(schedule),
        options_(options),
        quantum_(quantum),
        frozen_(frozen),
        cost_(cost) {
    for (const StagePlacement& stage : layout.stages) {
      sources_.push_back(cost.SourcesOf(cost.backbone(), stage.layers));
    }
  }

  absl::StatusOr<Plan> Make(const RecvLookahead& lookahead) {
    recv_positions_ = RecvPositions(schedule_, lookahead);
    Plan plan = Header();
    for (int rank = 0; rank < layout_.num_devices; ++rank) {
      DPIPE_RETURN_IF_ERROR(AddRank(rank, &plan));
    }
    return plan;
  }

 private:
  bool IsReplicated(int stage) const { return layout_.replicas[stage] * layout_.num_groups() > 1; }

  Plan Header() const;

  absl::Status AddRank(int rank, Plan* plan);
  std::vector<SlotWork> SlotsOf(int rank) const;
  SlotWork WorkOf(int rank, const Slot& slot) const;
  void AddGradients(int stage, const Slot& slot, const Instruction& pass, SlotWork* work) const;
  void AddNeighbours(Instruction::Kind kind, int rank, bool activation, int micro_batch,
                     std::vector<Instruction>* messages) const;
  std::vector<LayerRange> Buckets(LayerRange layers) const;
  Instruction Reduce(int stage, LayerRange layers) const;
  Instruction Frozen(const FillItem& item) const;
  bool ExchangesAhead() const;  // whether any rank sends what the next step reads
  void AddExchange(int rank, int step_offset, DeviceProgram* program) const;

  const PipelineLayout& layout_;
  const Schedule& schedule_;
  const LowerOptions& options_;
  const int quantum_;
  const FrozenPlacement& frozen_;
  const CostModel& cost_;
  std::vector<std::vector<int>> sources_;         // frozen components that a stage reads
  std::vector<std::vector<int>> recv_positions_;  // [stage][slot]
};

Plan Lowering::Header() const {
  Plan plan;
  plan.set_strategy(options_.strategy);
  plan.set_model(cost_.profile().model());
  plan.set_profile_fingerprint(Fingerprint(cost_.profile()));
  plan.set_cluster_fingerprint(Fingerprint(cost_.cluster()));
  plan.set_num_devices(layout_.num_devices);
  plan.set_devices_per_pipeline(layout_.devices_per_pipeline());
  plan.set_global_batch(layout_.global_batch());
  plan.set_num_micro_batches(layout_.num_micro_batches());
  plan.set_micro_batch_size(layout_.micro_batch_size());
  plan.set_frozen_quantum(quantum_);
  plan.set_cached_frozen_outputs(options_.frozen == FrozenPolicy::kCached);
  plan.set_global_norm(options_.global_norm);
  for (const ComponentProfile& profile : cost_.profile().components()) {
    PlanComponent* component = plan.add_components();
    component->set_name(profile.name());
    component->set_is_backbone(profile.is_backbone());
    component->set_num_layers(profile.layers_size());
    for (const ValueProfile& value : profile.values()) {
      if (value.is_output()) component->add_outputs(value.name());
    }
  }
  for (size_t s = 0; s < layout_.stages.size(); ++s) {
    Stage* stage = plan.add_stages();
    stage->set_id(static_cast<int>(s));
    stage->set_component(cost_.backbone());
    SetRange(layout_.stages[s].layers, stage->mutable_layers());
    for (int g = 0; g < layout_.num_groups(); ++g) {
      for (int i = 0; i < layout_.replicas[s]; ++i) {
        stage->add_ranks(RankAt(layout_, {g, static_cast<int>(s), i}));
      }
    }
  }
  return plan;
}

// Messages of one micro-batch to (SEND) or from (RECV) the neighbouring stage, one for each of its
// ranks that shares samples with this one.
void Lowering::AddNeighbours(Instruction::Kind kind, int rank, bool activation, int micro_batch,
                             std::vector<Instruction>* messages) const {
  const auto [group, stage, index] = SeatOf(layout_, rank);
  const bool to_next = (kind == Instruction::SEND) == activation;
  const int other = to_next ? stage + 1 : stage - 1;
  if (other < 0 || other >= static_cast<int>(layout_.stages.size())) return;
  const int cut = layout_.stages[std::max(stage, other)].layers.begin;
  const int64_t bytes = activation ? cost_.CutBytesPerSample(cost_.backbone(), cut)
                                   : cost_.CutGradientBytesPerSample(cost_.backbone(), cut);
  const SampleRange own = SamplesOf(layout_, group, 0, stage, index, micro_batch);
  for (int i = 0; i < layout_.replicas[other]; ++i) {
    const SampleRange common = own.Intersect(SamplesOf(layout_, group, 0, other, i, micro_batch));
    if (common.empty()) continue;
    Instruction message = Blank(kind);
    message.set_payload(activation ? Instruction::ACTIVATION : Instruction::GRADIENT);
    message.set_stage(stage);
    message.set_peer_stage(other);
    message.set_peer(RankAt(layout_, {group, other, i}));
    message.set_micro_batch(micro_batch);
    SetRange(common, message.mutable_samples());
    message.set_bytes(bytes * common.size());
    messages->push_back(std::move(message));
  }
}

// From the back to the front, each closed when it holds at least bucket_bytes of gradients.
std::vector<LayerRange> Lowering::Buckets(LayerRange layers) const {
  std::vector<LayerRange> buckets;
  int end = layers.end;
  for (int l = layers.end - 1; l >= layers.begin; --l) {
    if (l > layers.begin && cost_.GradientBytes({l, end}) < options_.bucket_bytes) continue;
    buckets.push_back({l, end});
    end = l;
  }
  // A last bucket that is not full joins the one before it: it would only delay the end.
  if (buckets.size() > 1 && cost_.GradientBytes(buckets.back()) < options_.bucket_bytes / 2) {
    const int begin = buckets.back().begin;
    buckets.pop_back();
    buckets.back().begin = begin;
  }
  return buckets;
}

Instruction Lowering::Reduce(int stage, LayerRange layers) const {
  Instruction reduce = Blank(Instruction::REDUCE_GRADS);
  reduce.set_stage(stage);
  SetRange(layers, reduce.mutable_layers());
  reduce.set_bytes(cost_.GradientBytes(layers));
  return reduce;
}

// A pass that completes weight gradients; after the last micro-batch's they are reduced.
void Lowering::AddGradients(int stage, const Slot& slot, const Instruction& pass,
                            SlotWork* work) const {
  const bool last = slot.micro_batch == layout_.num_micro_batches() - 1;
  if (!last || !IsReplicated(stage)) {
    work->computes.push_back(pass);
    return;
  }
  const LayerRange layers = layout_.stages[stage].layers;
  if (options_.sync == SyncPolicy::kEnd) {
    work->computes.push_back(pass);
    work->tail.push_back(Reduce(stage, layers));
    return;
  }
  const std::vector<LayerRange> buckets = Buckets(layers);
  for (const LayerRange& bucket : buckets) {
    Instruction part = pass;
    SetRange(bucket, part.mutable_layers());
    work->computes.push_back(part);
    // The gradient that the stage before waits for goes out before the last bucket's reduction.
    (bucket == buckets.back() ? work->tail : work->computes).push_back(Reduce(stage, bucket));
  }
}

SlotWork Lowering::WorkOf(int rank, const Slot& slot) const {
  const auto [group, stage, index] = SeatOf(layout_, rank);
  const SampleRange samples = SamplesOf(layout_, group, 0, stage, index, slot.micro_batch);
  Instruction pass = Blank(slot.pass == Pass::kForward     ? Instruction::FORWARD
                           : slot.pass == Pass::kBackward  ? Instruction::BACKWARD
                           : slot.pass == Pass::kInputGrad ? Instruction::INPUT_GRAD
                                                           : Instruction::WEIGHT_GRAD);
  pass.set_stage(stage);
  pass.set_micro_batch(slot.micro_batch);
  SetRange(samples, pass.mutable_samples());
  SetRange(layout_.stages[stage].layers, pass.mutable_layers());
  SlotWork work;
  if (slot.pass == Pass::kForward) {
    if (options_.frozen == FrozenPolicy::kCached && !sources_[stage].empty()) {
      Instruction load = Blank(Instruction::LOAD_BATCH);
      load.set_component(cost_.backbone());
      SetRange(samples, load.mutable_samples());
      work.computes.push_back(load);
    }
    work.computes.push_back(pass);
    AddNeighbours(Instruction::SEND, rank, /*activation=*/true, slot.micro_batch, &work.sends);
    return work;
  }
  if (slot.pass == Pass::kInputGrad) {
    work.computes.push_back(pass);
  } else {
    AddGradients(stage, slot, pass, &work);
  }
  if (slot.pass != Pass::kWeightGrad) {
    AddNeighbours(Instruction::SEND, rank, /*activation=*/false, slot.micro_batch, &work.sends);
  }
  return work;
}

std::vector<SlotWork> Lowering::SlotsOf(int rank) const {
  const int stage = SeatOf(layout_, rank).device;
  const std::vector<Slot>& slots = schedule_.slots(stage);
  std::vector<SlotWork> works;
  works.reserve(slots.size());
  for (const Slot& slot : slots) works.push_back(WorkOf(rank, slot));
  for (size_t k = 0; k < slots.size(); ++k) {
    if (slots[k].pass == Pass::kWeightGrad) continue;
    AddNeighbours(Instruction::RECV, rank, slots[k].pass == Pass::kForward, slots[k].micro_batch,
                  &works[recv_positions_[stage][k]].recvs);
  }
  return works;
}

Instruction Lowering::Frozen(const FillItem& item) const {
  Instruction work = Blank(item.load ? Instruction::LOAD_BATCH : Instruction::FROZEN_FORWARD);
  work.set_component(item.component);
  SetRange(item.samples, work.mutable_samples());
  if (!item.load) SetRange(item.layers, work.mutable_layers());
  work.set_step_offset(item.step_offset);
  return work;
}

void Lowering::AddExchange(int rank, int step_offset, DeviceProgram* program) const {
  for (const FrozenMessage& message : frozen_.exchange) {
    if (message.step_offset != step_offset) continue;
    if (message.from != rank && message.to != rank) continue;
    const bool sends = message.from == rank;
    Instruction instruction = Blank(sends ? Instruction::SEND : Instruction::RECV);
    instruction.set_payload(Instruction::FROZEN_OUTPUT);
    instruction.set_component(message.component);
    instruction.set_peer(sends ? message.to : message.from);
    SetRange(message.samples, instruction.mutable_samples());
    instruction.set_bytes(cost_.OutputBytesPerSample(message.component) * message.samples.size());
    instruction.set_step_offset(step_offset);
    *program->add_instructions() = std::move(instruction);
  }
}

bool Lowering::ExchangesAhead() const {
  return std::any_of(frozen_.exchange.begin(), frozen_.exchange.end(),
                     [](const FrozenMessage& message) { return message.step_offset == 1; });
}

absl::Status Lowering::AddRank(int rank, Plan* plan) {
  DeviceProgram* program = plan->add_devices();
  program->set_rank(rank);
  const std::vector<FillItem>& items = frozen_.items[rank];
  // This step's frozen work and the exchange of its outputs come first of all.
  for (const FillItem& item : items) {
    if (item.step_offset == 0) *program->add_instructions() = Frozen(item);
  }
  AddExchange(rank, 0, program);
  size_t next_item = 0;
  int position = 0;
  const auto add_fill = [&] {
    for (; next_item < items.size() && items[next_item].position <= position; ++next_item) {
      const FillItem& item = items[next_item];
      if (item.step_offset != 0) *program->add_instructions() = Frozen(item);
    }
    ++position;
  };
  for (SlotWork& work : SlotsOf(rank)) {
    for (Instruction& recv : work.recvs) *program->add_instructions() = std::move(recv);
    for (Instruction& compute : work.computes) {
      add_fill();
      *program->add_instructions() = std::move(compute);
    }
    for (Instruction& send : work.sends) *program->add_instructions() = std::move(send);
    for (Instruction& reduce : work.tail) {
      add_fill();
      *program->add_instructions() = std::move(reduce);
    }
  }
  add_fill();
  if (next_item < items.size()) {
    return Bad(absl::StrCat("a fill item of rank ", rank, " is at position ",
                            items[next_item].position, "; the rank has ", position,
                            " compute instructions"));
  }
  const bool flush = options_.flush_exchange && ExchangesAhead();
  if (flush) *program->add_instructions() = Flush();
  AddExchange(rank, 1, program);
  if (flush) *program->add_instructions() = Flush();
  *program->add_instructions() = Blank(Instruction::OPTIMIZER_STEP);
  return absl::OkStatus();
}

}  // namespace

std::vector<int> ComputeInstructions(const DeviceProgram& program) {
  std::vector<int> indices;
  for (int i = 0; i < program.instructions_size(); ++i) {
    if (!IsMessage(program.instructions(i))) indices.push_back(i);
  }
  return indices;
}

absl::StatusOr<Plan> LowerPlan(const PipelineLayout& layout, const Schedule& schedule,
                               const LowerOptions& options, const CostModel& cost) {
  const int quantum = options.frozen_quantum > 0 ? options.frozen_quantum : cost.frozen_quantum();
  DPIPE_RETURN_IF_ERROR(CheckLayout(layout, cost));
  DPIPE_RETURN_IF_ERROR(CheckFit(layout, schedule, quantum, options, cost));
  FrozenPlacement frozen;
  frozen.items.resize(layout.num_devices);
  if (options.frozen == FrozenPolicy::kFirst) {
    frozen = PlaceFrozenFirst(layout, cost, quantum, options.max_frozen_batch);
  } else if (options.frozen == FrozenPolicy::kFill) {
    DPIPE_ASSIGN_OR_RETURN(frozen, PlaceFillItems(layout, cost, options.fill));
  }
  Lowering lowering(layout, schedule, options, quantum, frozen, cost);
  const int wanted = std::max(0, options.recv_lookahead);
  absl::Status progress;
  // Two neighbours that both post early can wait for each other: one waits for the next activation
  // before the backward pass that the other awaits before the forward pass that makes it.
  for (const RecvLookahead& lookahead :
       {RecvLookahead{wanted, wanted}, RecvLookahead{wanted, 0}, RecvLookahead{0, 0}}) {
    DPIPE_ASSIGN_OR_RETURN(Plan plan, lowering.Make(lookahead));
    progress = CheckRendezvous(plan);
    if (progress.ok()) return plan;
  }
  return progress;
}

}  // namespace dpipe
