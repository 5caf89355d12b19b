// Activations and their derivatives, as vector_math.h has them for CPUs.
#ifndef DPIPE_CORE_OPS_CUDA_CURVES_H_
#define DPIPE_CORE_OPS_CUDA_CURVES_H_

#include <cmath>

#include "core/ops/cuda/kernel.h"

namespace dpipe::ops::cuda {

DPIPE_KERNEL_FUNCTION float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
DPIPE_KERNEL_FUNCTION float NormalCdf(float x) { return 0.5f + 0.5f * erff(x * 0.70710678f); }
DPIPE_KERNEL_FUNCTION float NormalPdf(float x) { return 0.39894228f * expf(-0.5f * x * x); }

struct SiluCurve {
  static DPIPE_KERNEL_FUNCTION float Value(float x) { return x * Sigmoid(x); }
  static DPIPE_KERNEL_FUNCTION float Derivative(float x) {
    const float s = Sigmoid(x);
    return s + x * s * (1.0f - s);
  }
};

struct GeluCurve {
  static DPIPE_KERNEL_FUNCTION float Value(float x) { return x * NormalCdf(x); }
  static DPIPE_KERNEL_FUNCTION float Derivative(float x) { return NormalCdf(x) + x * NormalPdf(x); }
};

struct GeluTanhCurve {
  static DPIPE_KERNEL_FUNCTION float Inner(float x) {
    return tanhf(0.79788456f * (x + 0.044715f * x * x * x));
  }
  static DPIPE_KERNEL_FUNCTION float Value(float x) { return 0.5f * x * (1.0f + Inner(x)); }
  static DPIPE_KERNEL_FUNCTION float Derivative(float x) {
    const float t = Inner(x);
    return 0.5f * (1.0f + t) +
           0.5f * x * (1.0f - t * t) * 0.79788456f * (1.0f + 3.0f * 0.044715f * x * x);
  }
};

struct QuickGeluCurve {
  static DPIPE_KERNEL_FUNCTION float Value(float x) { return x * Sigmoid(1.702f * x); }
  static DPIPE_KERNEL_FUNCTION float Derivative(float x) {
    const float s = Sigmoid(1.702f * x);
    return s + 1.702f * x * s * (1.0f - s);
  }
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CURVES_H_
