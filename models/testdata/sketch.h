// Sketches of tensors: a few numbers from which the distance of two tensors can be estimated, for
// goldens of gradients of several gigabytes. make_formula_goldens.py has the same formula in
// sketch().
#ifndef DPIPE_MODELS_TESTDATA_SKETCH_H_
#define DPIPE_MODELS_TESTDATA_SKETCH_H_

#include <array>
#include <cmath>
#include <string>

#include "core/tensor/tensor.h"
#include "models/testdata/formula_weights.h"

namespace dpipe::models {

inline constexpr int kSketchSigns = 8;

// Sketch of a tensor g: |g|, and s.g for eight vectors s of signs derived from the tensor's name.
struct Sketch {
  double norm = 0;
  std::array<double, kSketchSigns> dots = {};
};

using SketchSigns = std::array<double, kSketchSigns>;

// Returns the signs of every byte: a 1 bit means -1.
inline const std::array<SketchSigns, 1 << kSketchSigns>& SignsOfBits() {
  static const auto* const table = [] {
    auto* made = new std::array<SketchSigns, 1 << kSketchSigns>;
    for (int bits = 0; bits < 1 << kSketchSigns; ++bits) {
      for (int j = 0; j < kSketchSigns; ++j) (*made)[bits][j] = 1 - 2 * ((bits >> j) & 1);
    }
    return made;
  }();
  return *table;
}

inline Sketch SketchOf(const std::string& name, const Tensor& tensor) {
  const Tensor t = tensor.To(DType::kF32);
  const FormulaBits bits("sign/" + name);
  const auto& signs_of = SignsOfBits();
  Sketch sketch;
  SketchSigns dots = {};
  uint32_t index = 0;
  for (float x : t.span<float>()) {
    sketch.norm += double{x} * x;
    const SketchSigns& signs = signs_of[bits[index++] >> 24];
    for (int j = 0; j < kSketchSigns; ++j) dots[j] += signs[j] * double{x};
  }
  sketch.dots = dots;
  sketch.norm = std::sqrt(sketch.norm);
  return sketch;
}

// Estimates |a - b| by the root mean square over the signs. This is unbiased: over random signs,
// (s.d)^2 has the mean |d|^2. With eight signs the error is about a quarter.
inline double SketchDistance(const Sketch& a, const Sketch& b) {
  double sum = 0;
  for (int j = 0; j < kSketchSigns; ++j) sum += std::pow(a.dots[j] - b.dots[j], 2);
  return std::sqrt(sum / kSketchSigns);
}

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TESTDATA_SKETCH_H_
