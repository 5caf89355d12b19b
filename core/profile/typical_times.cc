#include "core/profile/typical_times.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/median.h"

namespace dpipe {
namespace {

using Kind = std::vector<Nanos> LayerSamples::*;
constexpr Kind kKinds[] = {&LayerSamples::forward_ns, &LayerSamples::input_grad_ns,
                           &LayerSamples::weight_grad_ns};

Nanos Median(std::vector<Nanos> samples) {
  return samples.empty() ? 0 : MedianSample(std::move(samples));
}

// Returns the duration of each pass on one worker.
std::vector<Nanos> Passes(const ComponentSamples& samples) {
  std::vector<Nanos> passes;
  for (const LayerSamples& layer : samples.layers) {
    for (const Kind kind : kKinds) {
      passes.resize(std::max(passes.size(), (layer.*kind).size()));
      for (size_t pass = 0; pass < (layer.*kind).size(); ++pass) {
        passes[pass] += (layer.*kind)[pass];
      }
    }
  }
  return passes;
}

// Returns the factor by which to scale the medians.
double Scale(const std::vector<ComponentSamples>& workers) {
  double medians = 0;  // mean over the workers
  std::vector<Nanos> slowest;
  for (const ComponentSamples& samples : workers) {
    for (const LayerSamples& layer : samples.layers) {
      for (const Kind kind : kKinds) medians += double(Median(layer.*kind)) / workers.size();
    }
    const std::vector<Nanos> passes = Passes(samples);
    slowest.resize(std::max(slowest.size(), passes.size()));
    for (size_t pass = 0; pass < passes.size(); ++pass) {
      slowest[pass] = std::max(slowest[pass], passes[pass]);
    }
  }
  return medians > 0 ? Midmean(slowest) / medians : 1;
}

}  // namespace

Nanos Midmean(std::vector<Nanos> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const size_t cut = samples.size() / 4;
  const Nanos sum = std::accumulate(samples.begin() + cut, samples.end() - cut, Nanos{0});
  return sum / static_cast<Nanos>(samples.size() - 2 * cut);
}

std::vector<TypicalTimes> TypicalLayerTimes(const std::vector<ComponentSamples>& workers) {
  std::vector<TypicalTimes> times(workers.empty() ? 0 : workers[0].layers.size());
  const double share = workers.empty() ? 0 : Scale(workers) / workers.size();
  for (const ComponentSamples& samples : workers) {
    for (size_t l = 0; l < times.size(); ++l) {
      const LayerSamples& layer = samples.layers[l];
      times[l].forward_ns += static_cast<Nanos>(share * Median(layer.forward_ns));
      times[l].input_grad_ns += static_cast<Nanos>(share * Median(layer.input_grad_ns));
      times[l].weight_grad_ns += static_cast<Nanos>(share * Median(layer.weight_grad_ns));
    }
  }
  return times;
}

Nanos TypicalLoadTime(const std::vector<ComponentSamples>& workers) {
  Nanos sum = 0;
  for (const ComponentSamples& samples : workers) sum += Midmean(samples.load_ns);
  return workers.empty() ? 0 : sum / static_cast<Nanos>(workers.size());
}

}  // namespace dpipe
