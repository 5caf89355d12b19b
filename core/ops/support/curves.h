// Activations and their derivatives, for both CPUs and CUDA. Math has the functions that depend on
// the processor: Sigmoid, Tanh, and the standard normal NormalCdf and NormalPdf.
#ifndef DPIPE_CORE_OPS_SUPPORT_CURVES_H_
#define DPIPE_CORE_OPS_SUPPORT_CURVES_H_

#if defined(__CUDACC__)
#define DPIPE_CURVE_FUNCTION __host__ __device__ __forceinline__
#else
// Inlined into the caller, so that loops are compiled for the caller's vector width.
#define DPIPE_CURVE_FUNCTION inline __attribute__((always_inline))
#endif

namespace dpipe::ops {

enum class Activation {
  kSilu,       // x sigmoid(x)
  kGelu,       // x (1 + erf(x / sqrt 2)) / 2, the exact one
  kGeluTanh,   // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
  kQuickGelu,  // x sigmoid(1.702 x), CLIP's
};

template <typename Math>
struct SiluCurve {
  static DPIPE_CURVE_FUNCTION float Value(float x) { return x * Math::Sigmoid(x); }
  static DPIPE_CURVE_FUNCTION float Derivative(float x) {
    const float s = Math::Sigmoid(x);
    return s + x * s * (1.0f - s);
  }
};

template <typename Math>
struct GeluCurve {
  static DPIPE_CURVE_FUNCTION float Value(float x) { return x * Math::NormalCdf(x); }
  static DPIPE_CURVE_FUNCTION float Derivative(float x) {
    return Math::NormalCdf(x) + x * Math::NormalPdf(x);
  }
};

template <typename Math>
struct GeluTanhCurve {
  static DPIPE_CURVE_FUNCTION float Inner(float x) {
    return Math::Tanh(0.79788456f * (x + 0.044715f * x * x * x));
  }
  static DPIPE_CURVE_FUNCTION float Value(float x) { return 0.5f * x * (1.0f + Inner(x)); }
  static DPIPE_CURVE_FUNCTION float Derivative(float x) {
    const float t = Inner(x);
    return 0.5f * (1.0f + t) +
           0.5f * x * (1.0f - t * t) * 0.79788456f * (1.0f + 3.0f * 0.044715f * x * x);
  }
};

template <typename Math>
struct QuickGeluCurve {
  static DPIPE_CURVE_FUNCTION float Value(float x) { return x * Math::Sigmoid(1.702f * x); }
  static DPIPE_CURVE_FUNCTION float Derivative(float x) {
    const float s = Math::Sigmoid(1.702f * x);
    return s + 1.702f * x * s * (1.0f - s);
  }
};

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_SUPPORT_CURVES_H_
