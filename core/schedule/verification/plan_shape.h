// Which ranks hold what in a plan: the order-independent part of verification.
#ifndef DPIPE_CORE_SCHEDULE_VERIFICATION_PLAN_SHAPE_H_
#define DPIPE_CORE_SCHEDULE_VERIFICATION_PLAN_SHAPE_H_

#include <optional>
#include <string>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/placement/boundary.h"
#include "core/schedule/placement/rank_position.h"
#include "core/schedule/placement/weight_groups.h"

namespace dpipe {

struct StageShape {
  int chain = 0;
  int component = 0;
  int device = 0;  // an index of PlanShape::device
  LayerRange layers;
  bool forward_only = false, sharded = false, keeps_frozen_weights = false;
  std::vector<LayerRange> blocks;                   // that it recomputes; empty if it does not
  int previous = -1, next = -1;                     // stages of the chain
  bool local_previous = false, local_next = false;  // true if they are on the same ranks
  int num_micro_batches = 0;
};

// Ranks that hold the same stages.
struct DeviceShape {
  std::vector<int> ranks;   // increasing
  int replicas = 1;         // of one pipeline group
  std::vector<int> stages;  // increasing
};

class PlanShape {
 public:
  // InvalidArgument if the header, components, chains, stages and ranks are inconsistent with each
  // other, the profile or the cluster.
  static absl::StatusOr<PlanShape> Create(const Plan& plan, const CostModel& cost);

  int num_stages() const { return static_cast<int>(stages_.size()); }
  const StageShape& stage(int s) const { return stages_[s]; }
  // RankPosition::device is an index of PlanShape::device.
  const RankPosition& position(int rank) const { return positions_[rank]; }
  const DeviceShape& device(int d) const { return devices_[d]; }
  const DeviceShape& device_of(int rank) const { return devices_[positions_[rank].device]; }
  bool Holds(int rank, int stage) const { return stages_[stage].device == positions_[rank].device; }
  const WeightGroups& weights() const { return *weights_; }
  const ChainBoundaries& boundaries(int chain) const { return boundaries_[chain]; }
  // Bytes per sample of a message from a stage to a neighbour in its chain.
  int64_t ForwardBytes(int stage) const;   // to the next
  int64_t GradientBytes(int stage) const;  // to the previous
  // Default-constructed if the plan is not relaxed.
  const Relaxation& relaxation() const { return relaxation_; }
  bool is_relaxed() const { return relaxation_.weights() != Relaxation::WEIGHTS_UNSPECIFIED; }
  // Returns the samples of a micro-batch that `rank` trains on; `rank` must hold the stage.
  SampleRange SamplesOf(int rank, int stage, int micro_batch) const;

 private:
  absl::Status AddStages(const Plan& plan, const CostModel& cost);
  absl::Status AddDevice(const Plan& plan, int s);
  absl::Status CheckLaps() const;
  void LinkStages(const Plan& plan, const CostModel& cost);
  absl::Status CheckSameCuts(const Plan& plan) const;
  absl::Status CheckWeights() const;

  struct ChainShape {
    int first_stage = 0, num_stages = 0;
    int micro_batch_size = 0, first_sample = 0;
  };
  int samples_per_group_ = 0;
  Relaxation relaxation_;
  std::vector<ChainShape> chains_;
  std::vector<StageShape> stages_;
  std::vector<DeviceShape> devices_;
  std::optional<WeightGroups> weights_;
  std::vector<RankPosition> positions_;
  std::vector<ChainBoundaries> boundaries_;
};

// Returns a prefix for messages, such as "rank 2, instruction 17 (FORWARD): ".
std::string InstructionName(const Plan& plan, int rank, int index);

// An instruction whose name is built only if an error needs it. The plan must outlive this.
struct InstructionAt {
  const Plan* plan = nullptr;
  int rank = 0;
  int index = 0;

  std::string Name() const { return InstructionName(*plan, rank, index); }
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_VERIFICATION_PLAN_SHAPE_H_
