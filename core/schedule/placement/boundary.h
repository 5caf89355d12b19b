// The values that cross each boundary between the stages of a chain, and those that stay on a
// device.
//
// Let stage a produce a value v. v crosses the boundary between stages k and k+1 (a <= k) if and
// only if some stage t >= k+1 on another device than a reads v. Readers on a's own device use the
// copy that stayed there. So in a straight chain, every value that is live at a cut crosses it. A
// U-Net skip connection crosses nothing if all of its readers are on the producer's device.
// External inputs never cross.
//
// If any reader of v is on another device than a, the gradient of v crosses back over every
// boundary between the last reader and a, including those that v itself does not cross. The reason
// is that contributions are added from the last reader to the first, as on a single device: a
// contribution from a last reader on a's own device must pass through the readers before it.
// (Adding the device's own contributions at the end would save these bytes, but the sums would no
// longer be bitwise equal.) If all readers are on a's device, the gradient stays there too.
//
// A chain with self-conditioning runs its layers twice; the first lap is forward-only. Each lap has
// its own boundaries. The boundary between the laps carries the first lap's estimate and no
// gradient.
#ifndef DPIPE_CORE_SCHEDULE_PLACEMENT_BOUNDARY_H_
#define DPIPE_CORE_SCHEDULE_PLACEMENT_BOUNDARY_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// The properties of a stage that determine its boundaries.
struct BoundaryStage {
  LayerRange layers;
  int device = 0;  // equal for stages on the same ranks
  bool forward_only = false;
};

// A value that one stage produces and a later stage reads on the same device.
struct KeptValue {
  int value = 0;              // index among the component's values
  int from = 0, to = 0;       // stages of the chain; one KeptValue per reading stage
  bool has_gradient = false;  // true if there is a gradient and it stays too
  int64_t bytes_per_sample = 0;
};

class ChainBoundaries {
 public:
  // Computes the boundaries of a chain of `component`. The stages of each lap must partition its
  // layers. O(values x stages).
  ChainBoundaries(const CostModel& cost, int component, const std::vector<BoundaryStage>& stages);

  // Returns the values that cross between stages k and k+1 of the chain, as increasing indices of
  // the component's values. Empty between two laps.
  const std::vector<int>& Values(int k) const { return crossings_[k].values; }
  // Return the bytes per sample that cross between stages k and k+1, forward and backward. There
  // are no gradient bytes if stage k is forward-only.
  int64_t ForwardBytes(int k) const { return crossings_[k].forward_bytes; }
  int64_t GradientBytes(int k) const { return crossings_[k].gradient_bytes; }
  // Returns the kept values, sorted by value, then by `to`.
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

// Returns the boundaries of a plan's chain. Stages with equal ranks share a device. The plan's
// header must be valid.
ChainBoundaries BoundariesOf(const Plan& plan, int chain, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_PLACEMENT_BOUNDARY_H_
