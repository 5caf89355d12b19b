#include <cmath>
#include <vector>

#include "core/ops/norm/modulate_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

// Returns the index in v of the scale of x's element i; its shift is x.dim(-1) further.
int64_t ScaleOf(const Tensor& x, int64_t i) {
  const int64_t channels = x.dim(-1);
  return i / (x.num_elements() / x.dim(0)) * 2 * channels + i % channels;
}

double Modulated(const Tensor& x, const Tensor& v, int64_t i) {
  const int64_t scale = ScaleOf(x, i);
  return Get(x, i) * (1 + Get(v, scale)) + Get(v, scale + x.dim(-1));
}

double Sigmoid(double h) { return 1 / (1 + std::exp(-h)); }

}  // namespace

void ModulateForward(bool silu, const Tensor& x, const Tensor& v, Tensor* y) {
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const double h = Modulated(x, v, i);
    Put(*y, i, silu ? h * Sigmoid(h) : h);
  }
}

void ModulateInputGrad(bool silu, const Tensor& x, const Tensor& v, const Tensor& dy, Tensor* dx,
                       Tensor* dv) {
  std::vector<double> sums(dv->num_elements());
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    double dh = Get(dy, i);
    if (silu) {
      const double h = Modulated(x, v, i), s = Sigmoid(h);
      dh *= s + h * s * (1 - s);
    }
    const int64_t scale = ScaleOf(x, i);
    Put(*dx, i, dh * (1 + Get(v, scale)));
    sums[scale] += dh * Get(x, i);
    sums[scale + x.dim(-1)] += dh;
  }
  for (int64_t i = 0; i < dv->num_elements(); ++i) Put(*dv, i, sums[i]);
}

}  // namespace dpipe::ops::ref
