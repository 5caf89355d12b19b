#include <cmath>
#include <vector>

#include "core/ops/elementwise/elementwise_kernels.h"
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

namespace {

double NormalCdf(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }
double NormalPdf(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }

}  // namespace

void GegluForward(const Tensor& x, Tensor* y) {
  const int64_t width = y->dim(-1);
  for (int64_t i = 0; i < y->num_elements(); ++i) {
    const int64_t value = i / width * 2 * width + i % width;
    const double gate = Get(x, value + width);
    Put(*y, i, Get(x, value) * gate * NormalCdf(gate));
  }
}

void GegluInputGrad(const Tensor& x, const Tensor& dy, Tensor* dx) {
  const int64_t width = dy.dim(-1);
  for (int64_t i = 0; i < dy.num_elements(); ++i) {
    const int64_t value = i / width * 2 * width + i % width;
    const double gate = Get(x, value + width), d = Get(dy, i);
    Put(*dx, value, d * gate * NormalCdf(gate));
    Put(*dx, value + width, d * Get(x, value) * (NormalCdf(gate) + gate * NormalPdf(gate)));
  }
}

void Add(const Tensor& a, const Tensor& b, Tensor* y) {
  for (int64_t i = 0; i < a.num_elements(); ++i) Put(*y, i, Get(a, i) + Get(b, i));
}

void AddChannels(const Tensor& x, const Tensor& v, Tensor* y) {
  const int64_t channels = v.dim(1), sample = x.num_elements() / x.dim(0);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    Put(*y, i, Get(x, i) + Get(v, i / sample * channels + i % channels));
  }
}

void AddChannelsVectorGrad(const Tensor& dy, Tensor* dv) {
  const int64_t channels = dv->dim(1), sample = dy.num_elements() / dy.dim(0);
  for (int64_t i = 0; i < dv->num_elements(); ++i) {
    const int64_t begin = i / channels * sample;
    double sum = 0;
    for (int64_t j = i % channels; j < sample; j += channels) sum += Get(dy, begin + j);
    Put(*dv, i, sum);
  }
}

void Scale(float factor, const Tensor& x, Tensor* y) {
  for (int64_t i = 0; i < x.num_elements(); ++i) Put(*y, i, factor * Get(x, i));
}

void Axpy(float factor, const Tensor& x, Tensor* y) {
  for (int64_t i = 0; i < x.num_elements(); ++i) Put(*y, i, Get(*y, i) + factor * Get(x, i));
}

namespace {

// Returns the index in the gates of h's element i.
int64_t GateOf(const Tensor& h, int64_t i) {
  const int64_t channels = h.dim(-1);
  return i / (h.num_elements() / h.dim(0)) * channels + i % channels;
}

}  // namespace

void GatedAddForward(const Tensor& x, const Tensor& gate, const Tensor& h, Tensor* y) {
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    Put(*y, i, Get(x, i) + Get(gate, GateOf(h, i)) * Get(h, i));
  }
}

void GatedAddInputGrad(const Tensor& gate, const Tensor& h, const Tensor& dy,
                       GatedAddGrads* grads) {
  std::vector<double> sums(gate.num_elements());
  for (int64_t i = 0; i < h.num_elements(); ++i) {
    const int64_t g = GateOf(h, i);
    Put(grads->dh, i, Get(dy, i) * Get(gate, g));
    sums[g] += Get(dy, i) * Get(h, i);
  }
  for (size_t g = 0; g < sums.size(); ++g) Put(grads->dgate, g, sums[g]);
}

void Multiply(const Tensor& a, const Tensor& b, Tensor* y) {
  for (int64_t i = 0; i < a.num_elements(); ++i) Put(*y, i, Get(a, i) * Get(b, i));
}

}  // namespace dpipe::ops::ref

namespace dpipe::ops {

const ElementwiseKernels ElementwiseKernels::kReference = {ref::ActivationForward,
                                                           ref::ActivationInputGrad,
                                                           ref::GegluForward,
                                                           ref::GegluInputGrad,
                                                           ref::Add,
                                                           ref::AddChannels,
                                                           ref::AddChannelsVectorGrad,
                                                           ref::Scale,
                                                           ref::Axpy,
                                                           ref::GatedAddForward,
                                                           ref::GatedAddInputGrad,
                                                           ref::Multiply};

}  // namespace dpipe::ops
