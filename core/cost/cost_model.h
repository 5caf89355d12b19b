// The costs of everything: a ModelProfile and a ClusterSpec, validated and fast to query.
//
// Components and layers are the profile's indices, ranks are numbered node by node, times are
// integer nanoseconds and sizes bytes. A "cut" c of a component separates its layers c-1 and c.
// Queries are const and thread-safe. A query on a range of layers takes O(1), after the first for
// the same component and batch. [algorithms.md §1, §6]
#ifndef DPIPE_CORE_COST_COST_MODEL_H_
#define DPIPE_CORE_COST_COST_MODEL_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/cost/collectives.h"
#include "core/cost/layer_times.h"
#include "core/cost/recompute_blocks.h"
#include "core/cost/shared_links.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

class CostModel {
 public:
  // Returns InvalidArgument if the profile or the cluster is inconsistent; the message names
  // component, layer or value, field and both values (see validate.h).
  static absl::StatusOr<CostModel> Create(const ModelProfile& profile, const ClusterSpec& cluster);

  const ModelProfile& profile() const { return *profile_; }
  const ClusterSpec& cluster() const { return cluster_; }
  int num_devices() const { return cluster_.num_nodes() * cluster_.devices_per_node(); }

  // ---- One of many pipeline groups ----
  // True if all consecutive groups of this many devices behave the same: they have the same
  // placement on nodes and interfaces, speed and memory limit, and no messages of two groups pass
  // the same link within a node.
  bool HasIdenticalGroups(int devices_per_group) const;
  // Returns the model of the first such group alone, which a search can simulate instead of the
  // whole cluster. num_devices() is the group's. Collectives over some of its ranks cost as much as
  // over those ranks of every group. HasIdenticalGroups(devices_per_group) must hold.
  CostModel ForOneGroup(int devices_per_group) const;
  // Number of groups that this model represents; 1 if it is not from ForOneGroup.
  int num_groups() const { return num_groups_; }

  // ---- Structure ----
  int num_components() const { return profile_->components_size(); }
  // Increasing; at least one.
  const std::vector<int>& backbones() const { return backbones_; }
  int backbone() const { return backbones_[0]; }  // the first
  bool IsBackbone(int component) const { return profile_->components(component).is_backbone(); }
  // Every frozen component, after all components whose outputs it reads.
  const std::vector<int>& frozen_components() const { return frozen_order_; }
  int num_layers(int component) const { return profile_->components(component).layers_size(); }
  LayerRange AllLayers(int component) const { return {0, num_layers(component)}; }
  int frozen_quantum() const { return frozen_quantum_; }  // >= 1
  // Returns the frozen components whose outputs `layers` of `component` read, in increasing order.
  std::vector<int> SourcesOf(int component, LayerRange layers) const;
  // Returns the values computed before the cut and read at or after it, in increasing order.
  // External inputs are not included.
  std::vector<int> ValuesAtCut(int component, int cut) const;

  // ---- Devices ----
  // Times on a rank are those of the profile divided by the rank's speed.
  double SpeedOf(int rank) const { return speed_[rank]; }
  bool IsUniform() const { return uniform_; }  // true if every rank runs at the profile's speed
  // Returns `time` / speed, accurate to 1 part in 2^32 / speed and rounded up. Parts never take
  // less time than the whole.
  Nanos OnRank(Nanos time, int rank) const;
  int64_t MemoryLimitOf(int rank) const { return memory_limit_[rank]; }  // 0: unlimited

  // ---- Compute ---- (at the profile's speed, except InstructionTime)
  // Returns prefix sums for one local batch (>= 1), computed on first use and cached.
  const LayerTimes& Times(int component, int batch) const;
  Nanos Forward(int component, LayerRange layers, int batch) const {
    return Times(component, batch).Forward(layers);
  }
  Nanos Backward(int component, LayerRange layers, int batch) const {
    return Times(component, batch).Backward(layers);
  }
  // Host work to prepare the loaded inputs of a frozen component, or a cached batch if `component`
  // is a backbone.
  Nanos Load(int component, int samples) const;
  // Time of the optimizer step over these layers of a backbone, without and with its fixed part, on
  // one of the `shards` ranks over which the layers' weights are divided.
  Nanos OptimizerShare(int component, LayerRange layers, int shards = 1) const;
  Nanos Optimizer(int component, LayerRange layers, int shards = 1) const {
    return profile_->optimizer_fixed_ns() + OptimizerShare(component, layers, shards);
  }
  // Time of LOAD_BATCH, FORWARD, RECOMPUTE, BACKWARD, INPUT_GRAD, WEIGHT_GRAD or FROZEN_FORWARD of
  // layers of `component` (a stage's, or the instruction's own) on `batch` samples; 0 for other
  // kinds.
  Nanos PassTime(Instruction::Kind kind, int component, LayerRange layers, int batch) const;
  // The same for an instruction of a plan, at the speed of the rank that runs it.
  Nanos InstructionTime(const Plan& plan, const Instruction& instruction, int rank) const;

  // ---- Bytes ----
  int64_t ParameterBytes(int component, LayerRange layers) const;
  // Bytes that a gradient all-reduce of these layers of a backbone sums (fp32).
  int64_t GradientBytes(int component, LayerRange layers) const;
  int64_t SavedBytesPerSample(int component, LayerRange layers) const;
  int64_t WorkspaceBytesPerSample(int component, LayerRange layers) const;  // largest; O(layers)
  // Bytes of the values at a cut, and of the gradients of those that have one.
  int64_t CutBytesPerSample(int component, int cut) const;
  int64_t CutGradientBytesPerSample(int component, int cut) const;
  // Blocks of layers of a backbone that recomputes.
  const RecomputeBlocks& Blocks(int component) const { return *blocks_[component]; }
  // Bytes of the estimate that one lap of self-conditioning hands to the next.
  int64_t SelfConditioningBytesPerSample(int component) const {
    return profile_->components(component).self_conditioning_bytes_per_sample();
  }
  // Bytes of all values of a component that others read: the size of a FROZEN_OUTPUT message.
  int64_t OutputBytesPerSample(int component) const;
  // Bytes that a sample of a frozen component takes along when another rank continues with layer
  // `cut`: the size of a FROZEN_VALUES message.
  int64_t MovedBytesPerSample(int component, int cut) const;
  // Bytes of the external inputs that come from no other component.
  int64_t LoadedBytesPerSample(int component) const;

  // ---- Memory of one device ----
  // Bytes of the training state of these layers of a backbone: master weights and gradients (fp32),
  // and the optimizer's state (ModelProfile.optimizer_bytes_per_parameter). If the profile's dtype
  // is bf16, also of the bf16 working copy.
  int64_t StateBytes(int component, LayerRange layers) const;
  // The part of StateBytes of weights that are not trained.
  int64_t FrozenStateBytes(int component, LayerRange layers) const;
  // StateBytes on one of `shards` ranks that divide it. If `keeps_frozen`, weights that are not
  // trained are not divided.
  int64_t ShardedStateBytes(int component, LayerRange layers, int64_t shards,
                            bool keeps_frozen) const;
  // StateBytes, plus the bytes that `in_flight` micro-batches of `local_batch` samples keep for
  // their backward passes, plus the largest layer's workspace.
  int64_t StageBytes(int component, LayerRange layers, int local_batch, int in_flight) const;

  // ---- Communication ----
  int NodeOf(int rank) const { return rank / cluster_.devices_per_node(); }
  Nanos LatencyBetween(int from, int to) const {
    return (NodeOf(from) == NodeOf(to) ? cluster_.intra_node() : cluster_.inter_node())
        .latency_ns();
  }
  // Returns the bandwidth, in bytes per second, of the slowest link between two different ranks.
  double BandwidthBetween(int from, int to) const;
  // Time of one message over idle links: latency + bytes / bandwidth, rounded up. The ranks must
  // differ.
  Nanos Transfer(int from, int to, int64_t bytes) const;
  int interfaces_per_node() const { return interfaces_per_node_; }
  const SharedLinks& shared_links() const { return shared_links_; }
  // A shared link, and how long a message or collective occupies it, from its start on.
  struct LinkUse {
    int link = 0;
    Nanos duration_ns = 0;
  };
  // Appends the shared links that a message passes.
  void AppendLinksOf(int from, int to, int64_t bytes, std::vector<LinkUse>* uses) const;
  // Times of collectives as in collectives.h; 0 for one rank. Two parts of the bytes never cost
  // less than the whole.
  Nanos Collective(CollectiveKind kind, const std::vector<int>& ranks, int64_t bytes) const;
  // The same; also appends the shared links that it passes: between nodes, its ranks' interfaces
  // for as long as it takes, and links within nodes for the bytes of a ring.
  Nanos Collective(CollectiveKind kind, const std::vector<int>& ranks, int64_t bytes,
                   std::vector<LinkUse>* uses) const;
  Nanos AllReduce(const std::vector<int>& ranks, int64_t bytes) const;
  Nanos ReduceScatter(const std::vector<int>& ranks, int64_t bytes) const;
  Nanos AllGather(const std::vector<int>& ranks, int64_t bytes) const;
  // Memory that each rank's NCCL communicator keeps for an all-reduce or a reduce-scatter of this
  // many bytes over these ranks. 0 between CPUs or parts of one GPU.
  int64_t ReductionBufferBytes(const CollectiveGroup& group, bool scatters, int64_t bytes) const {
    const bool by_nccl = !cluster_.collectives_use_compute() && !cluster_.devices_share_memory();
    return by_nccl ? RoomBytesOf(group, scatters, bytes) : 0;
  }
  int64_t ReductionBufferBytes(const std::vector<int>& ranks, bool scatters, int64_t bytes) const {
    return ReductionBufferBytes(Members(ranks), scatters, bytes);
  }
  bool SpansNodes(const std::vector<int>& ranks) const { return Members(ranks).num_nodes > 1; }
  // Time to sum one number over all ranks, as for a global gradient norm.
  Nanos GlobalNorm() const { return global_norm_; }

 private:
  struct Prefixes {  // [i]: of layers [0, i)
    std::vector<int64_t> parameter, trainable, saved, optimizer;
    std::vector<int64_t> cut, cut_gradient, moved;  // [c]: at cut c
    int64_t output = 0, loaded = 0;
  };
  // Prefix sums by batch, computed once. Up to kQuickBatches they are then read without a lock.
  struct TimesCache {
    static constexpr int kQuickBatches = 1024;
    std::mutex mutex;
    std::map<int, std::unique_ptr<LayerTimes>> by_batch;
    std::atomic<const LayerTimes*> quick[kQuickBatches] = {};
  };

  CostModel() = default;
  void SetDevices();
  // Returns these ranks of all groups that this model represents, and their placement.
  std::vector<int> InAllGroups(const std::vector<int>& ranks) const;
  CollectiveGroup Members(const std::vector<int>& ranks) const;
  static Prefixes MakePrefixes(const ComponentProfile& component);

  std::shared_ptr<const ModelProfile> profile_;
  ClusterSpec cluster_;
  int num_groups_ = 1;
  ClusterSpec whole_cluster_;  // the original cluster if from ForOneGroup; else cluster_
  std::vector<int> backbones_;
  int frozen_quantum_ = 1;
  int interfaces_per_node_ = 1;
  bool uniform_ = true;
  Nanos global_norm_ = 0;
  std::vector<double> speed_;          // by rank
  std::vector<int64_t> slowness_;      // by rank: 2^32 / speed, rounded down
  std::vector<int64_t> memory_limit_;  // by rank
  SharedLinks shared_links_;           // of the original cluster
  std::vector<int> frozen_order_;
  std::vector<Prefixes> prefixes_;                              // by component
  std::vector<std::vector<std::vector<int>>> layer_sources_;    // [component][layer]
  std::vector<std::shared_ptr<TimesCache>> times_;              // by component
  std::vector<std::shared_ptr<const RecomputeBlocks>> blocks_;  // by component
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_COST_MODEL_H_
