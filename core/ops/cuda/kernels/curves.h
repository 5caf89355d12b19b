// The activations of core/ops/support/curves.h with CUDA's functions.
#ifndef DPIPE_CORE_OPS_CUDA_KERNELS_CURVES_H_
#define DPIPE_CORE_OPS_CUDA_KERNELS_CURVES_H_

#include <cmath>
#include <type_traits>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/support/curves.h"
#include "core/tensor/bf16.h"

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

// For results that are rounded to bf16: the processor's approximations. PTX's manual bounds their
// errors by 2^-22 (ex2) and one unit in the last place (rcp). With a rounded exponent the relative
// error is about |x| 2^-24 + 2^-21. If e^x is outside fp32's normal numbers, the result is 0 or
// infinite. Emulation uses the exact functions.
struct ApproximateMath : KernelMath {
#if defined(__CUDA_ARCH__)
  static __device__ __forceinline__ float Exp(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
    return power;
  }
  static __device__ __forceinline__ float Inverse(float x) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
  }
#else
  static DPIPE_KERNEL_FUNCTION float Exp(float x) { return expf(x); }
  static DPIPE_KERNEL_FUNCTION float Inverse(float x) { return 1.0f / x; }
#endif
  static DPIPE_KERNEL_FUNCTION float Sigmoid(float x) { return Inverse(1.0f + Exp(-x)); }
  static DPIPE_KERNEL_FUNCTION float NormalPdf(float x) { return 0.39894228f * Exp(-0.5f * x * x); }
};

// The functions for tensors of T.
template <typename T>
using MathFor = std::conditional_t<std::is_same_v<T, Bf16>, ApproximateMath, KernelMath>;

template <typename T>
using SiluCurve = ops::SiluCurve<MathFor<T>>;
template <typename T>
using GeluCurve = ops::GeluCurve<MathFor<T>>;
template <typename T>
using GeluTanhCurve = ops::GeluTanhCurve<MathFor<T>>;
template <typename T>
using QuickGeluCurve = ops::QuickGeluCurve<MathFor<T>>;

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_KERNELS_CURVES_H_
