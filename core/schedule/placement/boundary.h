// What crosses each boundary between the stages of a chain, and what stays on a device.
//
// Let stage a make a value v. v crosses the boundary between stages k and k+1 (a <= k) if and only
// if a stage t >= k+1 that reads v lies on another device than a; readers on a's own device take
// the copy that stayed there. So in a straight chain every value live at a cut crosses it, and a
// U-Net skip whose readers all share its device crosses nothing. External inputs never cross.
//
// The gradient of v crosses back over every boundary between its last reader and a, if any reader
// at all lies on another device than a, even where v itself does not cross: contributions are added
// from the last reader to the first, as on one device, so what a last reader on a's own device adds
// has to come to the readers before it. (Adding the device's own contributions afterwards would
// save these bytes and cost the sums their bits.) Where no reader lies elsewhere it stays, too.
//
// A chain with self-conditioning runs its layers twice, the first lap forward-only. Each lap has
// boundaries of its own; the one between the laps carries the first one's estimate and no gradient.
#ifndef DPIPE_CORE_SCHEDULE_PLACEMENT_BOUNDARY_H_
#define DPIPE_CORE_SCHEDULE_PLACEMENT_BOUNDARY_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// A stage as boundaries see it.
struct BoundaryStage {
  LayerRange layers;
  int device = 0;  // equal for stages that lie on the same ranks
  bool forward_only = false;
};

// A value that a stage makes and a later one on the same device reads from there.
struct KeptValue {
  int value = 0;              // of the component
  int from = 0, to = 0;       // stages of the chain; one entry for each reading stage
  bool has_gradient = false;  // which stays too
  int64_t bytes_per_sample = 0;
};

class ChainBoundaries {
 public:
  // For a chain of `component`, whose stages partition its layers (each lap of them does).
  // O(values x stages).
  ChainBoundaries(const CostModel& cost, int component, const std::vector<BoundaryStage>& stages);

  // Between stages k and k+1 of the chain, by increasing index of the component's values; empty
  // where a lap ends.
  const std::vector<int>& Values(int k) const { return crossings_[k].values; }
  // What a message carries for one sample: forward, and back (0 where there is no way back).
  int64_t ForwardBytes(int k) const { return crossings_[k].forward_bytes; }
  int64_t GradientBytes(int k) const { return crossings_[k].gradient_bytes; }
  // By value, then by `to`.
  const std::vector<KeptValue>& kept() const { return kept_; }

 private:
  struct Crossing {
    std::vector<int> values;
    int64_t forward_bytes = 0, gradient_bytes = 0;
  };
  void AddLap(const ComponentProfile& component, const std::vector<BoundaryStage>& stages,
              int begin, int end);

  std::vector<Crossing> crossings_;
  std::vector<KeptValue> kept_;
};

// For a plan's chain; stages with equal ranks share a device. The plan's header is in order.
ChainBoundaries BoundariesOf(const Plan& plan, int chain, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLACEMENT_BOUNDARY_H_
