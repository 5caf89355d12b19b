// Cutting the backbone's chain of layers into contiguous stages.        [algorithms.md §2]
//
//   T_max = (M + 2S - 2) * T0 + Y
//   T0 = max over stages and links of their time per micro-batch
//   Y  = max over stages of max(0, sync - slack), slack = backward time of the layers before the
//   stage
//
// S stages, M micro-batches. A link counts as a stage of its own: it carries the values that are
// live at its cut. T_max bounds the step of the pipeline without frozen work; the search simulates
// what it finds.
#ifndef DPIPE_CORE_PLANNER_PARTITION_PARTITION_H_
#define DPIPE_CORE_PLANNER_PARTITION_PARTITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/range.h"
#include "core/base/time.h"

namespace dpipe {

// What the layers cost under one choice of S, M and replication: the numbers a partition depends
// on.
class StageCosts {
 public:
  virtual ~StageCosts() = default;
  virtual int num_layers() const = 0;
  // Forward and backward of one micro-batch by one device of a stage with these layers.
  virtual Nanos ComputeNs(LayerRange layers) const = 0;
  // The backward part of ComputeNs.
  virtual Nanos BackwardNs(LayerRange layers) const = 0;
  // Moving one micro-batch's values over the cut before layer `cut`, 0 < cut < num_layers().
  virtual Nanos LinkNs(int cut) const = 0;
  // The gradient all-reduce of a stage with these layers; 0 where it has one replica.
  virtual Nanos SyncNs(LayerRange layers) const = 0;
  // Peak memory of a device of stage `stage` (of S) with these layers.
  virtual int64_t MemoryBytes(int stage, LayerRange layers) const = 0;
};

struct PartitionProblem {
  const StageCosts* costs = nullptr;  // not owned
  int num_stages = 1;
  int num_micro_batches = 1;
  int64_t memory_limit_bytes = 0;  // of one device; 0: unlimited
};

struct Partition {
  std::vector<LayerRange> stages;  // contiguous, none empty, together all layers
  Nanos bottleneck_ns = 0;         // T0
  Nanos exposed_sync_ns = 0;       // Y
  Nanos bound_ns = 0;              // T_max
};

// Checks the request: InvalidArgument if there are fewer layers than stages, or no stage at all.
absl::Status CheckPartitionProblem(const PartitionProblem& problem);

// T0, Y and T_max of the given stages.
Partition ScorePartition(const PartitionProblem& problem, std::vector<LayerRange> stages);

// ResourceExhausted, naming the stage and both values, if a stage needs more than the limit.
absl::Status CheckMemory(const PartitionProblem& problem, const std::vector<LayerRange>& stages);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_PARTITION_H_
