#include "core/cost/layer_times.h"

#include <algorithm>

namespace dpipe {
namespace {

// ceil(a + (b - a) * part / whole), for times of either slope and 0 <= part <= whole.
Nanos Interpolate(Nanos a, Nanos b, int64_t part, int64_t whole) {
  const __int128 scaled = static_cast<__int128>(a) * whole + static_cast<__int128>(b - a) * part;
  return static_cast<Nanos>((scaled + whole - 1) / whole);
}

PassTimes Mask(LayerKind kind, PassTimes times) {
  if (kind == FROZEN) times.input_grad = 0;
  if (kind != TRAINABLE) times.weight_grad = 0;
  return times;
}

PassTimes Times(const LayerTiming& t) {
  return {t.forward_ns(), t.input_grad_ns(), t.weight_grad_ns()};
}

PassTimes Between(const PassTimes& a, const PassTimes& b, int64_t part, int64_t whole) {
  return {Interpolate(a.forward, b.forward, part, whole),
          Interpolate(a.input_grad, b.input_grad, part, whole),
          Interpolate(a.weight_grad, b.weight_grad, part, whole)};
}

}  // namespace

PassTimes TimesOfLayer(const LayerProfile& layer, int batch) {
  const auto& timings = layer.timings();
  const LayerTiming& last = timings[timings.size() - 1];
  if (batch <= timings[0].local_batch()) return Mask(layer.kind(), Times(timings[0]));
  if (batch >= last.local_batch()) {
    const PassTimes zero;
    // On the line from the origin through the largest profiled point; "part" may exceed "whole".
    return Mask(layer.kind(), Between(zero, Times(last), batch, last.local_batch()));
  }
  int upper = 1;
  while (timings[upper].local_batch() < batch) ++upper;
  const LayerTiming& low = timings[upper - 1];
  const LayerTiming& high = timings[upper];
  return Mask(layer.kind(), Between(Times(low), Times(high), batch - low.local_batch(),
                                    high.local_batch() - low.local_batch()));
}

double MinForwardPerSample(const LayerProfile& layer, int smallest, int largest) {
  const auto per_sample = [&layer](int batch) {
    // TimesOfLayer rounds up by less than 1 ns. A lower bound must not include this.
    const Nanos rounded = TimesOfLayer(layer, batch).forward;
    return std::max<double>(0, static_cast<double>(rounded - 1)) / batch;
  };
  double least = std::min(per_sample(smallest), per_sample(largest));
  for (const LayerTiming& timing : layer.timings()) {
    const int batch = timing.local_batch();
    if (smallest <= batch && batch <= largest) least = std::min(least, per_sample(batch));
  }
  return least;
}

LayerTimes::LayerTimes(const ComponentProfile& component, int batch)
    : forward_(component.layers_size() + 1, 0),
      input_grad_(component.layers_size() + 1, 0),
      weight_grad_(component.layers_size() + 1, 0) {
  for (int i = 0; i < component.layers_size(); ++i) {
    const PassTimes times = TimesOfLayer(component.layers(i), batch);
    forward_[i + 1] = forward_[i] + times.forward;
    input_grad_[i + 1] = input_grad_[i] + times.input_grad;
    weight_grad_[i + 1] = weight_grad_[i] + times.weight_grad;
  }
}

}  // namespace dpipe
