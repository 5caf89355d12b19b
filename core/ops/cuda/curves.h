// The activations of core/ops/curves.h by CUDA's functions.
#ifndef DPIPE_CORE_OPS_CUDA_CURVES_H_
#define DPIPE_CORE_OPS_CUDA_CURVES_H_

#include <cmath>

#include "core/ops/cuda/kernel.h"
#include "core/ops/curves.h"

namespace dpipe::ops::cuda {

struct KernelMath {
  static DPIPE_KERNEL_FUNCTION float Sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
  static DPIPE_KERNEL_FUNCTION float Tanh(float x) { return tanhf(x); }
  static DPIPE_KERNEL_FUNCTION float NormalCdf(float x) {
    return 0.5f + 0.5f * erff(x * 0.70710678f);
  }
  static DPIPE_KERNEL_FUNCTION float NormalPdf(float x) {
    return 0.39894228f * expf(-0.5f * x * x);
  }
};

using SiluCurve = ops::SiluCurve<KernelMath>;
using GeluCurve = ops::GeluCurve<KernelMath>;
using GeluTanhCurve = ops::GeluTanhCurve<KernelMath>;
using QuickGeluCurve = ops::QuickGeluCurve<KernelMath>;

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CURVES_H_
