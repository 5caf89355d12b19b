// The costs that partitioners use: of a backbone on a cluster, for one schedule and one division of
// the devices. [algorithms.md §1, §2]
//
// No table has size L^2: times come from the cost model's prefix sums at the local batch, costs of
// collectives are cached by the location of their ranks, and workspaces are a table of range maxima
// that all candidates of a search share, as they do the needs of recomputed blocks. Costs that
// depend on ranks are maxima over all pipeline groups, at the slowest rank.
//
// Memory is what the checker counts (core/schedule/memory/pass_memory.h), without messages and what
// stages of a device pass to each other. Stages with divided state also hold their weights while
// these are gathered, and whole gradients from the first backward pass until the next reduction
// after their own. If a single stage is divided into buckets, gradients count from the second
// backward pass on, and weights only if they are gathered once.
#ifndef DPIPE_CORE_PLANNER_COSTS_STAGE_COSTS_H_
#define DPIPE_CORE_PLANNER_COSTS_STAGE_COSTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "core/cost/collectives.h"
#include "core/cost/cost_model.h"
#include "core/cost/recompute_blocks.h"
#include "core/planner/partition/partition.h"
#include "core/planner/pipeline/shape.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Tables that depend only on the backbone; made once per plan. Not thread-safe: keeps cuts and
// needs. `cost` must outlive them.
class BackboneTables {
 public:
  BackboneTables(const CostModel& cost, int component);

  int component() const { return component_; }
  int64_t WorkspaceBytesPerSample(LayerRange layers) const;  // O(1)
  // Returns the need of the blocks that RecomputeBlocks::Cuts returns.
  RecomputeNeed NeedOfBlocks(LayerRange layers, int in_flight) const;
  const std::vector<ChainValue>& values() const { return values_; }
  KnownCuts* known_cuts() const { return &known_cuts_; }

 private:
  int component_ = 0;
  mutable KnownCuts known_cuts_;
  std::vector<std::vector<int64_t>> workspace_;  // [k][i]: maximum of layers [i, i + 2^k)
  std::vector<ChainValue> values_;
  const RecomputeBlocks& blocks_;
  mutable std::map<std::tuple<int, int, int>, RecomputeNeed> needs_;  // by layers and in flight
};

struct StageCostsOptions {
  int num_groups = 1;            // N / D
  int devices_per_pipeline = 1;  // D
  int micro_batch_size = 1;      // b, of one group
  int backbone = 0;              // of the schedule's chains
  // Bytes that a device keeps in addition to its stages, the frozen components' weights: on every
  // device, and additional ones on the devices from `first_host` on.
  int64_t frozen_bytes = 0, hosted_bytes = 0;
  int first_host = 0;
  // True if a stage's weights, gradients and moments are divided over its ranks of all groups.
  bool shards_state = false;
  // If so: true if trained weights are divided and gathered once per step (GatherPolicy::kOnce),
  // and true if gradients are reduced at its end (SyncPolicy::kEnd).
  bool gathers_once = false;
  bool reduces_at_end = false;
  // If so, and weights are not gathered once: true if a stage that is alone in its pipeline may
  // reduce its buckets after each micro-batch. Whole gradients are then not counted, like weights.
  bool accumulates_shards = false;
  // True if stages that recompute do so in blocks (core/cost/recompute_blocks.h).
  bool recomputes_blocks = false;
  // Forward passes per micro-batch: 1 + p if self-conditioning runs a second one in a fraction p of
  // the steps.
  double forward_passes = 1;
};

// Not thread-safe: queries fill caches.
class ModelStageCosts : public StageCosts {
 public:
  // `schedule` determines how many micro-batches each device stashes at once. `cost` must outlive
  // this. `tables` belong to the component that is backbone number options.backbone.
  ModelStageCosts(const CostModel& cost, std::shared_ptr<const BackboneTables> tables,
                  const Schedule& schedule, const StageCostsOptions& options);
  // For a straight pipeline of equal stages, without sharding.
  ModelStageCosts(const CostModel& cost, const PipelineShape& shape, const Schedule& schedule,
                  int64_t frozen_bytes);

  int num_layers() const override { return cost_.num_layers(component_); }
  bool CanReplicate(int replicas) const override {
    return replicas >= 1 && options_.micro_batch_size % replicas == 0;
  }
  Nanos ComputeNs(const DeviceSeat& seat, LayerRange layers) const override;
  std::vector<double> TimesKey(const DeviceSeat& seat) const override;
  KnownCuts* known_cuts() const override { return tables_->known_cuts(); }
  Nanos ForwardNs(const DeviceSeat& seat, LayerRange layers) const;
  Nanos BackwardNs(const DeviceSeat& seat, LayerRange layers) const override;
  Nanos LinkNs(int cut, const DeviceSeat& from, const DeviceSeat& to) const override;
  Nanos SyncNs(const std::vector<DeviceSeat>& copies, LayerRange layers) const override;
  int64_t MemoryBytes(int device, const DeviceSeat& seat,
                      const std::vector<HeldStage>& held) const override;
  int64_t MemoryLimitBytes(const DeviceSeat& seat) const override { return Of(seat).memory_limit; }
  // Returns the number of ranks that the state of the seat's stages is divided over.
  int StateShards(const DeviceSeat& seat) const {
    return options_.shards_state ? seat.replicas * options_.num_groups : 1;
  }
  // Returns the bytes that a rank of the seat keeps per micro-batch between the passes of such a
  // stage.
  int64_t PairBytes(const DeviceSeat& seat, LayerRange layers) const {
    return Of(seat).local_batch * KeptBytesPerSample(seat, layers);
  }
  int64_t ParameterBytes(LayerRange layers) const override {
    return cost_.ParameterBytes(component_, layers);
  }
  // Returns the bytes that reductions over the seat's ranks need; ignores copies of its stages
  // elsewhere.
  int64_t ReductionBufferBytes(const DeviceSeat& seat, const std::vector<HeldStage>& held) const;
  const std::vector<ChainValue>& values() const override { return tables_->values(); }
  Nanos TransferNs(int64_t forward_bytes, int64_t gradient_bytes, const DeviceSeat& from,
                   const DeviceSeat& to) const override;

 private:
  struct SeatCosts {
    const LayerTimes* times = nullptr;  // at the local batch
    int local_batch = 1;
    int slowest_rank = 0;
    int64_t memory_limit = 0;
  };
  // Messages and samples that a copy engine or an interface moves per micro-batch.
  struct LinkLoad {
    int inner_messages = 0, inner_samples = 0;  // within nodes
    int outer_messages = 0, outer_samples = 0;  // between nodes
    int shared_link = -1, shared_samples = 0;   // over a link within a node

    friend bool operator<(const LinkLoad& a, const LinkLoad& b) {
      const auto key = [](const LinkLoad& l) {
        return std::tie(l.inner_messages, l.inner_samples, l.outer_messages, l.outer_samples,
                        l.shared_link, l.shared_samples);
      };
      return key(a) < key(b);
    }
  };
  // What a device holds at one moment, by stage on it: the number of micro-batches in flight. If
  // stages are sharded, then by stage 1 if its whole gradients are there, then 1 if its weights are
  // gathered.
  using Moment = std::vector<int>;
  struct Stash {
    std::vector<int> stages;      // of the schedule
    std::vector<Moment> moments;  // none is below another one
    std::vector<Moment> moments_recomputing;
  };

  using SeatKey = std::pair<int, int>;  // first rank, replicas

  const SeatCosts& Of(const DeviceSeat& seat) const;
  const std::vector<LinkLoad>& LoadsOf(const DeviceSeat& from, const DeviceSeat& to) const;
  std::vector<LinkLoad> MakeLoads(const DeviceSeat& from, const DeviceSeat& to) const;
  Nanos LoadTime(const LinkLoad& load, int64_t bytes_per_sample) const;
  const CollectiveGroup& GroupOf(const std::vector<DeviceSeat>& copies) const;
  void ReadStashes(const Schedule& schedule);
  std::vector<Moment> Moments(const std::vector<Slot>& slots, const std::vector<int>& place,
                              int num_stages) const;
  std::vector<Moment> ShardedMoments(const std::vector<Slot>& slots, const std::vector<int>& place,
                                     int num_stages, bool in_buckets, bool recompute) const;
  int64_t KeptBytesPerSample(const DeviceSeat& seat, LayerRange layers) const;
  // Returns the need of a stage that recomputes, beyond what crosses its beginning.
  RecomputeNeed NeedOfRecomputing(LayerRange layers) const;

  const CostModel& cost_;
  const std::shared_ptr<const BackboneTables> tables_;
  const StageCostsOptions options_;
  const int component_;
  const int blocks_in_flight_;            // 0: stages that recompute are one block
  std::vector<Stash> stashes_;            // by device
  std::vector<int> first_stage_of_copy_;  // stage of the schedule, the first with gradients

  mutable std::map<SeatKey, SeatCosts> seats_;
  mutable std::pair<SeatKey, const SeatCosts*> last_seat_ = {{-1, -1}, nullptr};
  mutable std::map<std::pair<SeatKey, SeatKey>, std::vector<LinkLoad>> loads_;
  mutable std::map<std::vector<SeatKey>, CollectiveGroup> groups_;
  mutable std::pair<std::vector<DeviceSeat>, const CollectiveGroup*> last_group_ = {{}, nullptr};
};

// Returns the problem of partitioning backbone number `backbone` of a schedule. `replicas`: the
// number of ranks, by device.
PartitionProblem MakePartitionProblem(const StageCosts& costs, const Schedule& schedule,
                                      int backbone, std::vector<int> replicas);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_COSTS_STAGE_COSTS_H_
