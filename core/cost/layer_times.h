// Prefix sums over the layers of one component at one local batch. Any contiguous range of layers
// takes O(1) to query, as the partition DP does in its inner loop.
#ifndef DPIPE_CORE_COST_LAYER_TIMES_H_
#define DPIPE_CORE_COST_LAYER_TIMES_H_

#include <vector>

#include "core/base/range.h"
#include "core/base/time.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// The three passes of one layer.
struct PassTimes {
  Nanos forward = 0;
  Nanos input_grad = 0;
  Nanos weight_grad = 0;
};

// Returns the times of one layer at `batch` samples (>= 1), rounded up to whole nanoseconds.
// Between profiled batches they are linear. Below the smallest they equal the smallest's (a kernel
// launch does not shrink); above the largest, the time per sample is the largest's. A frozen layer
// has no gradients, a frozen layer with gradient no weight gradient. `layer` must be valid
// (CostModel::Create).
PassTimes TimesOfLayer(const LayerProfile& layer, int batch);

// Returns the minimum forward time per sample, in ns, over all batches in [smallest, largest]. For
// a piecewise linear curve it is at a profiled batch or at an end of the interval.
double MinForwardPerSample(const LayerProfile& layer, int smallest, int largest);

class LayerTimes {
 public:
  LayerTimes(const ComponentProfile& component, int batch);

  int num_layers() const { return static_cast<int>(forward_.size()) - 1; }
  Nanos Forward(LayerRange layers) const { return Sum(forward_, layers); }
  Nanos InputGrad(LayerRange layers) const { return Sum(input_grad_, layers); }
  Nanos WeightGrad(LayerRange layers) const { return Sum(weight_grad_, layers); }
  // Input and weight gradients.
  Nanos Backward(LayerRange layers) const { return InputGrad(layers) + WeightGrad(layers); }
  // All three passes.
  Nanos Total(LayerRange layers) const { return Forward(layers) + Backward(layers); }

 private:
  static Nanos Sum(const std::vector<Nanos>& prefix, LayerRange layers) {
    return prefix[layers.end] - prefix[layers.begin];
  }
  std::vector<Nanos> forward_;      // [i]: of layers [0, i)
  std::vector<Nanos> input_grad_;   // the same
  std::vector<Nanos> weight_grad_;  // the same
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_LAYER_TIMES_H_
