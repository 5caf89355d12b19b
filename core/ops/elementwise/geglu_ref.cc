#include <cmath>

#include "core/ops/elementwise/geglu_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

double Cdf(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }
double Pdf(double x) { return std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI); }

}  // namespace

void GegluForward(const Tensor& x, Tensor* y) {
  const int64_t width = y->dim(-1);
  for (int64_t i = 0; i < y->num_elements(); ++i) {
    const int64_t value = i / width * 2 * width + i % width;
    const double gate = Get(x, value + width);
    Put(*y, i, Get(x, value) * gate * Cdf(gate));
  }
}

void GegluInputGrad(const Tensor& x, const Tensor& dy, Tensor* dx) {
  const int64_t width = dy.dim(-1);
  for (int64_t i = 0; i < dy.num_elements(); ++i) {
    const int64_t value = i / width * 2 * width + i % width;
    const double gate = Get(x, value + width), d = Get(dy, i);
    Put(*dx, value, d * gate * Cdf(gate));
    Put(*dx, value + width, d * Get(x, value) * (Cdf(gate) + gate * Pdf(gate)));
  }
}

}  // namespace dpipe::ops::ref
