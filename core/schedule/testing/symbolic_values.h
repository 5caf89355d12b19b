// The symbols of symbolic runs: a value is a hash of how it was computed.
#ifndef DPIPE_CORE_SCHEDULE_TESTING_SYMBOLIC_VALUES_H_
#define DPIPE_CORE_SCHEDULE_TESTING_SYMBOLIC_VALUES_H_

#include <cstdint>
#include <initializer_list>

namespace dpipe::symbolic {

using Hash = uint64_t;

inline Hash Mix(std::initializer_list<Hash> parts) {
  Hash hash = 14695981039346656037u;
  for (Hash part : parts) {
    hash = (hash ^ part) * 1099511628211u;
    hash ^= hash >> 29;
  }
  return hash;
}

enum Tag : Hash {
  kLoaded = 1,
  kFrozen,
  kInput,
  kEstimate,
  kForward,
  kGradIn,
  kGrad,
  kWeight,
  kSum,
  kReduce,
  kStep
};

// The initial weight of a layer of a backbone.
inline Hash InitialWeight(int component, int layer) {
  return Mix({kStep, static_cast<Hash>(component), static_cast<Hash>(layer)});
}
inline Hash SteppedWeight(Hash weight, Hash gradient) { return Mix({kStep, weight, gradient}); }

inline Hash Loaded(int component, int sample, int step) {
  return Mix(
      {kLoaded, static_cast<Hash>(component), static_cast<Hash>(sample), static_cast<Hash>(step)});
}
// `sources` stands for the frozen outputs that the layer reads. Start from 0 and add each one with
// AddSource.
inline Hash AddSource(Hash sources, Hash output) { return Mix({sources, output}); }
inline Hash FrozenLayer(int component, int layer, Hash input, Hash sources) {
  return Mix({kFrozen, static_cast<Hash>(component), static_cast<Hash>(layer), input, sources});
}

// The data that a backbone draws and loads for itself.
inline Hash BackboneInput(int component, int sample, int step) {
  return Mix(
      {kInput, static_cast<Hash>(component), static_cast<Hash>(sample), static_cast<Hash>(step)});
}
// The input of the second lap of self-conditioning.
inline Hash WithEstimate(Hash input, Hash estimate) { return Mix({kEstimate, input, estimate}); }

inline Hash ForwardLayer(int layer, Hash input, Hash weight, Hash sources) {
  return Mix({kForward, static_cast<Hash>(layer), input, weight, sources});
}
inline Hash LossGradient(Hash output) { return Mix({kGradIn, output}); }
inline Hash GradLayer(int layer, Hash gradient, Hash input) {
  return Mix({kGrad, static_cast<Hash>(layer), gradient, input});
}
inline Hash WeightGrad(int layer, Hash gradient, Hash input) {
  return Mix({kWeight, static_cast<Hash>(layer), gradient, input});
}
inline Hash AddGradient(Hash sum, Hash gradient) { return Mix({kSum, sum, gradient}); }
// Reduces over ranks in their order; start from kReduce.
inline Hash Reduced(Hash total, Hash sum) { return Mix({total, sum}); }

}  // namespace dpipe::symbolic

#endif  // DPIPE_CORE_SCHEDULE_TESTING_SYMBOLIC_VALUES_H_
