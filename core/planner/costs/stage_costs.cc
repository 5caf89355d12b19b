#include "core/planner/costs/stage_costs.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/check.h"
#include "core/planner/pipeline/pipeline_schedule.h"
#include "core/schedule/messages/param_gathers.h"
#include "core/schedule/messages/resharding.h"

namespace dpipe {
namespace {

StageCostsOptions OptionsOf(const PipelineShape& shape, int64_t frozen_bytes) {
  StageCostsOptions options;
  options.num_groups = shape.num_groups();
  options.devices_per_pipeline = shape.devices_per_pipeline;
  options.micro_batch_size = shape.micro_batch_size();
  options.frozen_bytes = frozen_bytes;
  return options;
}

bool IsBelow(const std::vector<int>& a, const std::vector<int>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
  }
  return true;
}

// A pass of a stage; the stage is given by its place among its device's stages.
struct ShardedPass {
  int place = 0;
  bool is_forward = false;    // keeps something for later passes
  bool adds_weights = false;  // the last of its micro-batch's passes
};

// Returns the passes in order; with recomputation, includes second forward passes.
std::vector<ShardedPass> ShardedPasses(const std::vector<Slot>& slots,
                                       const std::vector<int>& place, bool recompute) {
  std::vector<ShardedPass> passes;
  for (const Slot& slot : slots) {
    const int at = place[slot.stage];
    if (at < 0) continue;
    const bool gives_gradient = slot.pass == Pass::kBackward || slot.pass == Pass::kInputGrad;
    if (recompute && gives_gradient) passes.push_back({at, false, false});
    passes.push_back({at, slot.pass == Pass::kForward,
                      slot.pass == Pass::kBackward || slot.pass == Pass::kWeightGrad});
  }
  return passes;
}

void KeepMaximal(const std::vector<int>& counts, std::vector<std::vector<int>>& kept) {
  for (const std::vector<int>& other : kept) {
    if (IsBelow(counts, other)) return;
  }
  kept.erase(std::remove_if(kept.begin(), kept.end(),
                            [&](const auto& other) { return IsBelow(other, counts); }),
             kept.end());
  kept.push_back(counts);
}

}  // namespace

BackboneTables::BackboneTables(const CostModel& cost, int component)
    : component_(component), blocks_(cost.Blocks(component)) {
  const int count = cost.num_layers(component);
  workspace_.emplace_back(count);
  for (int i = 0; i < count; ++i) {
    workspace_[0][i] = cost.WorkspaceBytesPerSample(component, {i, i + 1});
  }
  for (int width = 1; 2 * width <= count; width *= 2) {
    const std::vector<int64_t> half = workspace_.back();
    std::vector<int64_t> whole(count - 2 * width + 1);
    for (size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(half[i], half[i + width]);
    workspace_.push_back(std::move(whole));
  }
  for (const ValueProfile& value : cost.profile().components(component).values()) {
    if (value.producer_layer() < 0 || value.consumer_layers().empty()) continue;
    values_.push_back({value.producer_layer(),
                       {value.consumer_layers().begin(), value.consumer_layers().end()},
                       value.bytes_per_sample(),
                       value.has_gradient()});
  }
}

int64_t BackboneTables::WorkspaceBytesPerSample(LayerRange layers) const {
  if (layers.empty()) return 0;
  int k = 0;
  while ((2 << k) <= layers.size()) ++k;
  return std::max(workspace_[k][layers.begin], workspace_[k][layers.end - (1 << k)]);
}

RecomputeNeed BackboneTables::NeedOfBlocks(LayerRange layers, int in_flight) const {
  const auto [at, is_new] = needs_.try_emplace({layers.begin, layers.end, in_flight});
  if (is_new) at->second = blocks_.NeedOf(layers, blocks_.Cuts(layers, in_flight));
  return at->second;
}

ModelStageCosts::ModelStageCosts(const CostModel& cost,
                                 std::shared_ptr<const BackboneTables> tables,
                                 const Schedule& schedule, const StageCostsOptions& options)
    : cost_(cost),
      tables_(std::move(tables)),
      options_(options),
      component_(tables_->component()),
      blocks_in_flight_(options.recomputes_blocks ? BlocksInFlight(schedule) : 0) {
  for (size_t c = 0; c < schedule.chains().size(); ++c) {
    const ScheduleChain& chain = schedule.chains()[c];
    if (chain.backbone != options.backbone) continue;
    first_stage_of_copy_.push_back(schedule.FirstStageOf(c) + chain.num_forward_only);
  }
  ReadStashes(schedule);
}

ModelStageCosts::ModelStageCosts(const CostModel& cost, const PipelineShape& shape,
                                 const Schedule& schedule, int64_t frozen_bytes)
    : ModelStageCosts(cost, std::make_shared<BackboneTables>(cost, cost.backbone()), schedule,
                      OptionsOf(shape, frozen_bytes)) {}

void ModelStageCosts::ReadStashes(const Schedule& schedule) {
  std::vector<int> place(schedule.num_stages(), -1);
  stashes_.resize(schedule.num_devices());
  for (int s = 0; s < schedule.num_stages(); ++s) {
    if (schedule.IsForwardOnly(s)) continue;
    std::vector<int>& stages = stashes_[schedule.DeviceOf(s)].stages;
    place[s] = static_cast<int>(stages.size());
    stages.push_back(s);
  }
  for (int d = 0; d < schedule.num_devices(); ++d) {
    Stash& stash = stashes_[d];
    const int num_stages = static_cast<int>(stash.stages.size());
    if (!options_.shards_state) {
      stash.moments = stash.moments_recomputing = Moments(schedule.slots(d), place, num_stages);
      continue;
    }
    const bool in_buckets = schedule.num_devices() == 1;
    stash.moments = ShardedMoments(schedule.slots(d), place, num_stages, in_buckets, false);
    stash.moments_recomputing =
        ShardedMoments(schedule.slots(d), place, num_stages, in_buckets, true);
  }
}

std::vector<ModelStageCosts::Moment> ModelStageCosts::Moments(const std::vector<Slot>& slots,
                                                              const std::vector<int>& place,
                                                              int num_stages) const {
  std::vector<Moment> moments;
  Moment counts(num_stages, 0);
  bool grown = true;
  for (const Slot& slot : slots) {
    if (place[slot.stage] < 0 || slot.pass == Pass::kInputGrad) continue;
    if (slot.pass != Pass::kForward && grown) KeepMaximal(counts, moments);
    grown = slot.pass == Pass::kForward;
    counts[place[slot.stage]] += grown ? 1 : -1;
  }
  return moments;
}

std::vector<ModelStageCosts::Moment> ModelStageCosts::ShardedMoments(const std::vector<Slot>& slots,
                                                                     const std::vector<int>& place,
                                                                     int num_stages,
                                                                     bool in_buckets,
                                                                     bool recompute) const {
  const std::vector<ShardedPass> passes = ShardedPasses(slots, place, recompute);
  std::vector<int> parts, left(num_stages, 0);
  for (const ShardedPass& pass : passes) {
    parts.push_back(pass.place);
    left[pass.place] += pass.adds_weights ? 1 : 0;
  }
  const std::vector<PassGathers> gathers = PlanGathers(parts, options_.gathers_once);
  const bool gathers_stages = !in_buckets || options_.gathers_once;
  std::vector<Moment> moments;
  Moment now(3 * num_stages, 0);
  int *const whole_gradients = &now[num_stages], *const gathered = &now[2 * num_stages];
  int reducing = -1;
  for (size_t i = 0; i < passes.size(); ++i) {
    const auto& [at, is_forward, adds_weights] = passes[i];
    for (int next : gathers[i].before) gathered[parts[next]] = gathers_stages ? 1 : 0;
    if (is_forward) ++now[at];
    if (adds_weights && !in_buckets) whole_gradients[at] = 1;
    KeepMaximal(now, moments);
    if (gathers[i].release) gathered[at] = 0;
    if (!adds_weights) continue;
    --now[at];
    if (in_buckets && options_.accumulates_shards) continue;
    whole_gradients[at] = 1;
    if (--left[at] > 0 || options_.reduces_at_end) continue;
    if (reducing >= 0) whole_gradients[reducing] = 0;
    reducing = at;
  }
  return moments;
}

const ModelStageCosts::SeatCosts& ModelStageCosts::Of(const DeviceSeat& seat) const {
  const SeatKey key = {seat.first_rank, seat.replicas};
  if (last_seat_.first == key) return *last_seat_.second;
  auto [at, is_new] = seats_.try_emplace(key);
  SeatCosts& costs = at->second;
  if (is_new) {
    costs.local_batch = options_.micro_batch_size / seat.replicas;
    costs.times = &cost_.Times(component_, std::max(1, costs.local_batch));
    costs.slowest_rank = seat.first_rank;
    for (int g = 0; g < options_.num_groups; ++g) {
      for (int i = 0; i < seat.replicas; ++i) {
        const int rank = g * options_.devices_per_pipeline + seat.first_rank + i;
        if (cost_.SpeedOf(rank) < cost_.SpeedOf(costs.slowest_rank)) costs.slowest_rank = rank;
        const int64_t limit = cost_.MemoryLimitOf(rank);
        const int64_t so_far = costs.memory_limit;
        if (limit > 0) costs.memory_limit = so_far == 0 ? limit : std::min(limit, so_far);
      }
    }
  }
  last_seat_ = {key, &costs};
  return costs;
}

Nanos ModelStageCosts::ForwardNs(const DeviceSeat& seat, LayerRange layers) const {
  const SeatCosts& costs = Of(seat);
  return cost_.OnRank(costs.times->Forward(layers), costs.slowest_rank);
}

Nanos ModelStageCosts::BackwardNs(const DeviceSeat& seat, LayerRange layers) const {
  const SeatCosts& costs = Of(seat);
  return cost_.OnRank(costs.times->Backward(layers), costs.slowest_rank);
}

Nanos ModelStageCosts::ComputeNs(const DeviceSeat& seat, LayerRange layers) const {
  const SeatCosts& costs = Of(seat);
  Nanos forward = costs.times->Forward(layers);
  if (options_.forward_passes != 1) {
    forward = static_cast<Nanos>(std::ceil(forward * options_.forward_passes));
  }
  if (seat.recompute) forward += costs.times->Forward(layers);
  return cost_.OnRank(forward + costs.times->Backward(layers), costs.slowest_rank);
}

std::vector<double> ModelStageCosts::TimesKey(const DeviceSeat& seat) const {
  const SeatCosts& costs = Of(seat);
  return {static_cast<double>(costs.local_batch), cost_.SpeedOf(costs.slowest_rank),
          options_.forward_passes, seat.recompute ? 1.0 : 0.0};
}

std::vector<ModelStageCosts::LinkLoad> ModelStageCosts::MakeLoads(const DeviceSeat& from,
                                                                  const DeviceSeat& to) const {
  const SharedLinks& links = cost_.shared_links();
  std::set<LinkLoad> distinct;
  const auto messages = ReshardingMessages(options_.micro_batch_size, from.replicas, to.replicas);
  for (int g = 0; g < options_.num_groups; ++g) {
    const int first = g * options_.devices_per_pipeline;
    std::map<std::pair<bool, int>, LinkLoad> engines;  // (is receiver, rank)
    std::map<int, LinkLoad> shared;                    // by shared link
    for (const ReshardingMessage& message : messages) {
      const int sender = first + from.first_rank + message.from;
      const int receiver = first + to.first_rank + message.to;
      const bool inner = cost_.NodeOf(sender) == cost_.NodeOf(receiver);
      for (const bool receives : {false, true}) {
        const int rank = receives ? receiver : sender;
        LinkLoad& engine = engines[{receives, rank}];
        (inner ? engine.inner_messages : engine.outer_messages) += 1;
        (inner ? engine.inner_samples : engine.outer_samples) += message.samples.size();
      }
      for (int link : links.OnPath(sender, receiver)) {
        LinkLoad& load = shared[link];
        if (link < links.num_interface_links()) {
          load.outer_messages = 1;  // the latencies of several ranks' messages overlap
          load.outer_samples += message.samples.size();
        } else {
          load.shared_link = link;
          load.shared_samples += message.samples.size();
        }
      }
    }
    for (const auto& [key, load] : engines) distinct.insert(load);
    for (const auto& [link, load] : shared) distinct.insert(load);
  }
  return {distinct.begin(), distinct.end()};
}

const std::vector<ModelStageCosts::LinkLoad>& ModelStageCosts::LoadsOf(const DeviceSeat& from,
                                                                       const DeviceSeat& to) const {
  const std::pair<SeatKey, SeatKey> key = {{from.first_rank, from.replicas},
                                           {to.first_rank, to.replicas}};
  auto [at, is_new] = loads_.try_emplace(key);
  if (is_new) at->second = MakeLoads(from, to);
  return at->second;
}

Nanos ModelStageCosts::LoadTime(const LinkLoad& load, int64_t bytes_per_sample) const {
  Nanos time = 0;
  const auto add = [&](Nanos latency, int samples, double bandwidth) {
    time += latency + static_cast<Nanos>(std::ceil(static_cast<double>(samples) * bytes_per_sample /
                                                   bandwidth * kNanosPerSecond));
  };
  const Link& inner = cost_.cluster().intra_node();
  const Link& outer = cost_.cluster().inter_node();
  if (load.inner_messages > 0) {
    add(load.inner_messages * inner.latency_ns(), load.inner_samples,
        inner.bandwidth_bytes_per_s());
  }
  if (load.outer_messages > 0) {
    add(load.outer_messages * outer.latency_ns(), load.outer_samples,
        outer.bandwidth_bytes_per_s());
  }
  if (load.shared_link >= 0) {
    add(0, load.shared_samples, cost_.shared_links().bandwidth_bytes_per_s(load.shared_link));
  }
  return time;
}

Nanos ModelStageCosts::TransferNs(int64_t forward_bytes, int64_t gradient_bytes,
                                  const DeviceSeat& from, const DeviceSeat& to) const {
  if (from.first_rank == to.first_rank) return 0;
  Nanos slowest = 0;
  for (const LinkLoad& load : LoadsOf(from, to)) {
    Nanos time = LoadTime(load, forward_bytes);
    if (gradient_bytes > 0) time += LoadTime(load, gradient_bytes);
    slowest = std::max(slowest, time);
  }
  return slowest;
}

Nanos ModelStageCosts::LinkNs(int cut, const DeviceSeat& from, const DeviceSeat& to) const {
  return TransferNs(cost_.CutBytesPerSample(component_, cut),
                    cost_.CutGradientBytesPerSample(component_, cut), from, to);
}

const CollectiveGroup& ModelStageCosts::GroupOf(const std::vector<DeviceSeat>& copies) const {
  if (last_group_.second != nullptr && last_group_.first == copies) return *last_group_.second;
  std::vector<SeatKey> key;
  for (const DeviceSeat& seat : copies) key.emplace_back(seat.first_rank, seat.replicas);
  auto [at, is_new] = groups_.try_emplace(key);
  if (is_new) {
    std::set<int> ranks;
    for (int g = 0; g < options_.num_groups; ++g) {
      for (const auto& [first, replicas] : key) {
        for (int i = 0; i < replicas; ++i) {
          ranks.insert(g * options_.devices_per_pipeline + first + i);
        }
      }
    }
    at->second = GroupOfRanks(cost_.cluster(), {ranks.begin(), ranks.end()});
  }
  last_group_ = {copies, &at->second};
  return at->second;
}

Nanos ModelStageCosts::SyncNs(const std::vector<DeviceSeat>& copies, LayerRange layers) const {
  const CollectiveGroup& group = GroupOf(copies);
  return group.num_ranks == 1 ? 0 : AllReduceTime(group, cost_.GradientBytes(component_, layers));
}

int64_t ModelStageCosts::KeptBytesPerSample(const DeviceSeat& seat, LayerRange layers) const {
  if (!seat.recompute) return cost_.SavedBytesPerSample(component_, layers);
  return cost_.CutBytesPerSample(component_, layers.begin) + NeedOfRecomputing(layers).handed_on;
}

RecomputeNeed ModelStageCosts::NeedOfRecomputing(LayerRange layers) const {
  if (blocks_in_flight_ > 0) return tables_->NeedOfBlocks(layers, blocks_in_flight_);
  return {0, cost_.SavedBytesPerSample(component_, layers)};
}

int64_t ModelStageCosts::ReductionBufferBytes(const DeviceSeat& seat,
                                              const std::vector<HeldStage>& held) const {
  const CollectiveGroup& group = GroupOf({seat});
  int64_t room = 0;
  for (const HeldStage& stage : held) {
    room =
        std::max(room, cost_.ReductionBufferBytes(group, options_.shards_state,
                                                  cost_.GradientBytes(component_, stage.layers)));
  }
  return room;
}

int64_t ModelStageCosts::MemoryBytes(int device, const DeviceSeat& seat,
                                     const std::vector<HeldStage>& held) const {
  const Stash& stash = stashes_[device];
  const size_t num_stages = stash.stages.size();
  const int64_t local_batch = Of(seat).local_batch;
  const int shards = StateShards(seat);
  std::vector<int64_t> of_moment(3 * num_stages, 0);  // by place in a Moment
  const bool keeps_frozen = options_.gathers_once;
  int64_t state = 0, transient = 0;
  for (const HeldStage& stage : held) {
    state += cost_.ShardedStateBytes(component_, stage.layers, shards, keeps_frozen);
    const int64_t again = seat.recompute ? NeedOfRecomputing(stage.layers).restored : 0;
    transient = std::max(transient, tables_->WorkspaceBytesPerSample(stage.layers) + again);
    const int id = first_stage_of_copy_[stage.copy] + stage.stage;
    const auto at = std::find(stash.stages.begin(), stash.stages.end(), id);
    DPIPE_CHECK(at != stash.stages.end()) << "stage " << id << " is not on device " << device;
    const size_t place = at - stash.stages.begin();
    of_moment[place] = local_batch * KeptBytesPerSample(seat, stage.layers);
    if (shards == 1) continue;
    of_moment[num_stages + place] = cost_.GradientBytes(component_, stage.layers);
    of_moment[2 * num_stages + place] =
        GatheredBytes(cost_, component_, stage.layers, keeps_frozen);
  }
  int64_t most = 0;
  for (const Moment& moment : seat.recompute ? stash.moments_recomputing : stash.moments) {
    int64_t sum = 0;
    for (size_t k = 0; k < moment.size(); ++k) sum += moment[k] * of_moment[k];
    most = std::max(most, sum);
  }
  const int64_t hosted = device >= options_.first_host ? options_.hosted_bytes : 0;
  return options_.frozen_bytes + hosted + state + most + local_batch * transient +
         ReductionBufferBytes(seat, held);
}

PartitionProblem MakePartitionProblem(const StageCosts& costs, const Schedule& schedule,
                                      int backbone, std::vector<int> replicas) {
  PartitionProblem problem;
  problem.costs = &costs;
  problem.num_micro_batches = schedule.num_micro_batches(backbone);
  problem.replicas = std::move(replicas);
  for (const ScheduleChain& chain : schedule.chains()) {
    if (chain.backbone != backbone) continue;
    const int count = static_cast<int>(chain.devices.size()) - chain.num_forward_only;
    problem.devices_of_stage.resize(count);
    for (int k = 0; k < count; ++k) {
      problem.devices_of_stage[k].push_back(chain.devices[chain.num_forward_only + k]);
    }
  }
  return problem;
}

}  // namespace dpipe
