#include <cmath>
#include <vector>

#include "core/ops/norm/norm_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Calls f(element index, channel) for each element of group g of sample b.
template <typename F>
void ForGroup(const Tensor& x, int groups, int64_t b, int64_t g, const F& f) {
  const int64_t channels = x.dim(-1), width = channels / groups;
  const int64_t sample = x.num_elements() / x.dim(0);
  for (int64_t p = 0; p < sample; p += channels) {
    for (int64_t c = g * width; c < (g + 1) * width; ++c) f(b * sample + p + c, c);
  }
}

void ForwardGroup(const GroupNormParams& params, const Tensor& x, const Tensor& scale,
                  const Tensor& bias, int64_t b, int64_t g, GroupNormResult* result) {
  const double count = static_cast<double>(x.num_elements()) / x.dim(0) / params.groups;
  double mean = 0, variance = 0;
  ForGroup(x, params.groups, b, g, [&](int64_t i, int64_t) { mean += Get(x, i) / count; });
  ForGroup(x, params.groups, b, g, [&](int64_t i, int64_t) {
    variance += (Get(x, i) - mean) * (Get(x, i) - mean) / count;
  });
  const double rstd = 1 / std::sqrt(variance + params.eps);
  ForGroup(x, params.groups, b, g, [&](int64_t i, int64_t c) {
    const double z = (Get(x, i) - mean) * rstd * Get(scale, c) + Get(bias, c);
    Put(result->y, i, params.silu ? z * Sigmoid(z) : z);
  });
  Put(result->stats, (b * params.groups + g) * 2, mean);
  Put(result->stats, (b * params.groups + g) * 2 + 1, rstd);
}

}  // namespace

void GroupNormForward(const GroupNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, GroupNormResult* result) {
  for (int64_t b = 0; b < x.dim(0); ++b) {
    for (int g = 0; g < params.groups; ++g) {
      ForwardGroup(params, x, scale, bias, b, g, result);
    }
  }
}

// With h = (x - mean) rstd, z = h scale + bias and dz the gradient of z, over a group of n
// elements:
//   dx = rstd (dz scale - mean of (dz scale) - h mean of (dz scale h)).
void GroupNormInputGrad(const GroupNormParams& params, const Tensor& x, const Tensor& dy,
                        const Tensor& stats, const Tensor& scale, const Tensor& bias,
                        const Tensor& addend, GroupNormGrads* grads) {
  const int64_t channels = x.dim(-1);
  const double count = static_cast<double>(x.num_elements()) / x.dim(0) / params.groups;
  std::vector<double> sums(2 * x.dim(0) * channels);
  for (int64_t b = 0; b < x.dim(0); ++b) {
    for (int g = 0; g < params.groups; ++g) {
      const double mean = Get(stats, (b * params.groups + g) * 2);
      const double rstd = Get(stats, (b * params.groups + g) * 2 + 1);
      const auto normalised = [&](int64_t i) { return (Get(x, i) - mean) * rstd; };
      const auto dz = [&](int64_t i, int64_t c) {
        if (!params.silu) return Get(dy, i);
        const double z = normalised(i) * Get(scale, c) + Get(bias, c);
        return Get(dy, i) * Sigmoid(z) * (1 + z * (1 - Sigmoid(z)));
      };
      double first = 0, second = 0;
      ForGroup(x, params.groups, b, g, [&](int64_t i, int64_t c) {
        const double d = dz(i, c), h = normalised(i);
        first += d * Get(scale, c) / count;
        second += d * Get(scale, c) * h / count;
        sums[2 * (b * channels + c)] += d;
        sums[2 * (b * channels + c) + 1] += d * h;
      });
      ForGroup(x, params.groups, b, g, [&](int64_t i, int64_t c) {
        const double dx = rstd * (dz(i, c) * Get(scale, c) - first - normalised(i) * second);
        Put(grads->dx, i, addend.defined() ? dx + Get(addend, i) : dx);
      });
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) Put(grads->sums, i, sums[i]);
}

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

namespace dpipe::ops {

const GroupNormKernels GroupNormKernels::kReference = {
    ref::GroupNormForward, ref::GroupNormInputGrad, ref::ModulateForward, ref::ModulateInputGrad};

}  // namespace dpipe::ops
