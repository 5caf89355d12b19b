#include "core/sim/work_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cost/layer_times.h"

namespace dpipe {
namespace {

// Returns the time of all passes per sample.
long double PerSample(const CostModel& cost, int component, int layer, int batch) {
  const LayerTimes& times = cost.Times(component, batch);
  const LayerRange one{layer, layer + 1};
  const long double forward_passes = 1 + cost.profile().self_conditioning_probability();
  return (forward_passes * times.Forward(one) + times.Backward(one)) / batch;
}

long double BackboneWork(const CostModel& cost, int component, int global_batch, int local_batch) {
  long double work = 0;
  const int from = local_batch > 0 ? local_batch : 1;
  const int to = local_batch > 0 ? local_batch : global_batch;
  for (int layer = 0; layer < cost.num_layers(component); ++layer) {
    long double minimum = std::numeric_limits<long double>::infinity();
    for (int batch = from; batch <= to; ++batch) {
      minimum = std::min(minimum, PerSample(cost, component, layer, batch));
    }
    work += minimum * global_batch;
  }
  return work;
}

long double FrozenWork(const CostModel& cost, int component, int global_batch) {
  const int smallest = std::min(global_batch, std::max(1, cost.frozen_quantum()));
  long double work = cost.Load(component, global_batch);
  for (const LayerProfile& layer : cost.profile().components(component).layers()) {
    work +=
        static_cast<long double>(MinForwardPerSample(layer, smallest, global_batch)) * global_batch;
  }
  return work;
}

}  // namespace

Nanos WorkBound(const CostModel& cost, int global_batch, int local_batch) {
  long double work = 0, speeds = 0;
  for (int backbone : cost.backbones()) {
    work += BackboneWork(cost, backbone, global_batch, local_batch);
    work += cost.OptimizerShare(backbone, cost.AllLayers(backbone));
  }
  for (int component : cost.frozen_components()) work += FrozenWork(cost, component, global_batch);
  for (int rank = 0; rank < cost.num_devices(); ++rank) speeds += cost.SpeedOf(rank);
  // Batch times are rounded up to nanoseconds, and speeds have a relative error of 1e-6.
  const long double slack = cost.IsUniform() ? 1 : 1 - 1e-6L;
  return static_cast<Nanos>(std::floor(work / speeds * slack));
}

}  // namespace dpipe
