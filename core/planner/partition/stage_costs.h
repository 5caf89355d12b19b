// Costs of stages for one choice of schedule, micro-batches and devices: everything that a
// partition depends on. The planner implements it for a model on a cluster (ModelStageCosts), tests
// from plain vectors.
#ifndef DPIPE_CORE_PLANNER_PARTITION_STAGE_COSTS_H_
#define DPIPE_CORE_PLANNER_PARTITION_STAGE_COSTS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/range.h"
#include "core/base/time.h"

namespace dpipe {

// The ranks that run a schedule device's work: `replicas` neighbouring ranks of the pipeline group,
// which share every micro-batch evenly.
struct DeviceSeat {
  int first_rank = 0;  // within the group
  int replicas = 1;
  bool recompute = false;  // its stages keep only their inputs and run their forward passes twice

  friend bool operator==(const DeviceSeat& a, const DeviceSeat& b) {
    return a.first_rank == b.first_rank && a.replicas == b.replicas && a.recompute == b.recompute;
  }
};

// A stage on a device. `copy` counts the chains that hold the same stage (bidirectional schedules).
struct HeldStage {
  int stage = 0;
  int copy = 0;
  LayerRange layers;
};

// A value that layers of the backbone make and read. Values from outside are not listed: they cross
// no cut.
struct ChainValue {
  int producer = 0;
  std::vector<int> consumers;  // increasing, not empty
  int64_t bytes_per_sample = 0;
  bool has_gradient = false;
};

// Cuts without memory limits that are known, by what determines them: the numbers of
// StageCosts::TimesKey of all seats.
using KnownCuts = std::map<std::vector<double>, std::vector<LayerRange>>;

// Times never fall when a layer is added to a stage. Bytes never fall when a layer is added at its
// end. A stage that recomputes keeps what crosses the cut at its beginning, so it may need less
// with another layer at its front.
class StageCosts {
 public:
  virtual ~StageCosts() = default;
  virtual int num_layers() const = 0;
  // True if a micro-batch divides over that many ranks.
  virtual bool CanReplicate(int replicas) const { return replicas >= 1; }
  // Returns the time of the forward and backward passes of one micro-batch on one rank of the seat.
  // With recomputation, includes the second forward pass.
  virtual Nanos ComputeNs(const DeviceSeat& seat, LayerRange layers) const = 0;
  // Returns numbers that determine ComputeNs of a seat for all layers.
  virtual std::vector<double> TimesKey(const DeviceSeat& seat) const { return {}; }
  // Returns a place to keep cuts in, for all costs of the same layers. Null: nothing is kept.
  virtual KnownCuts* known_cuts() const { return nullptr; }
  // Returns the part of ComputeNs after the incoming gradient arrives.
  virtual Nanos BackwardNs(const DeviceSeat& seat, LayerRange layers) const = 0;
  // Returns the time to move one micro-batch over the cut before layer `cut`, 0 < cut <
  // num_layers(): every value that is live there forward, and the gradients back. 0 within a rank.
  virtual Nanos LinkNs(int cut, const DeviceSeat& from, const DeviceSeat& to) const = 0;
  // Returns the time of the gradient all-reduce over every rank that holds these layers: all
  // copies, all pipeline groups. 0 for one rank.
  virtual Nanos SyncNs(const std::vector<DeviceSeat>& copies, LayerRange layers) const = 0;
  // Returns the peak memory of one rank of schedule device `device` that holds these stages.
  virtual int64_t MemoryBytes(int device, const DeviceSeat& seat,
                              const std::vector<HeldStage>& held) const = 0;
  // Returns the minimum limit of the seat's ranks; 0: unlimited.
  virtual int64_t MemoryLimitBytes(const DeviceSeat& seat) const = 0;
  // Returns the weights of these layers.
  virtual int64_t ParameterBytes(LayerRange layers) const = 0;
  // Returns the values that cross cuts, for placements with skips that may stay on their device.
  virtual const std::vector<ChainValue>& values() const = 0;
  // Returns the time to move that many bytes per sample forward, and back, between two seats.
  virtual Nanos TransferNs(int64_t forward_bytes, int64_t gradient_bytes, const DeviceSeat& from,
                           const DeviceSeat& to) const = 0;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_STAGE_COSTS_H_
