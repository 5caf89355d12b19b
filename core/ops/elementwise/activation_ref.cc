#include <cmath>

#include "core/ops/elementwise/activation_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

constexpr double kSqrt2 = 1.4142135623730951;
constexpr double kSqrt2OverPi = 0.7978845608028654;
constexpr double kInverseSqrt2Pi = 0.3989422804014327;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double Value(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu:
      return x * Sigmoid(x);
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / kSqrt2));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
    case Activation::kQuickGelu:
      return x * Sigmoid(1.702 * x);
  }
  return 0;
}

double Derivative(Activation activation, double x) {
  switch (activation) {
    case Activation::kSilu: {
      const double s = Sigmoid(x);
      return s * (1 + x * (1 - s));
    }
    case Activation::kGelu:
      return 0.5 * (1 + std::erf(x / kSqrt2)) + x * kInverseSqrt2Pi * std::exp(-0.5 * x * x);
    case Activation::kGeluTanh: {
      const double t = std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x));
      const double dt = (1 - t * t) * kSqrt2OverPi * (1 + 3 * 0.044715 * x * x);
      return 0.5 * (1 + t) + 0.5 * x * dt;
    }
    case Activation::kQuickGelu: {
      const double s = Sigmoid(1.702 * x);
      return s * (1 + 1.702 * x * (1 - s));
    }
  }
  return 0;
}

}  // namespace

void ActivationForward(Activation activation, const Tensor& x, Tensor* y) {
  for (int64_t i = 0; i < x.num_elements(); ++i) Put(*y, i, Value(activation, Get(x, i)));
}

void ActivationInputGrad(Activation activation, const Tensor& x, const Tensor& dy, Tensor* dx) {
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    Put(*dx, i, Get(dy, i) * Derivative(activation, Get(x, i)));
  }
}

}  // namespace dpipe::ops::ref
