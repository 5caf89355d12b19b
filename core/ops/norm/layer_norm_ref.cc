#include <cmath>
#include <vector>

#include "core/ops/norm/norm_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {
namespace {

// Returns the index of the first number of a row in `v`, [C] or [B, C].
int64_t VectorOf(const Tensor& x, const Tensor& v, int64_t row) {
  if (v.shape().rank() == 1) return 0;
  return row * x.dim(-1) / (x.num_elements() / x.dim(0)) * x.dim(-1);
}

}  // namespace

void LayerNormForward(const LayerNormParams& params, const Tensor& x, const Tensor& scale,
                      const Tensor& bias, LayerNormResult* result) {
  const int64_t channels = x.dim(-1);
  for (int64_t row = 0; row < x.num_elements() / channels; ++row) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < channels; ++c) mean += Get(x, row * channels + c) / channels;
    for (int64_t c = 0; c < channels; ++c) {
      const double d = Get(x, row * channels + c) - mean;
      variance += d * d / channels;
    }
    const double rstd = 1 / std::sqrt(variance + params.eps);
    const int64_t v = VectorOf(x, scale, row);
    for (int64_t c = 0; c < channels; ++c) {
      const double h = (Get(x, row * channels + c) - mean) * rstd;
      Put(result->y, row * channels + c, h * Get(scale, v + c) + Get(bias, v + c));
    }
    Put(result->stats, 2 * row, mean);
    Put(result->stats, 2 * row + 1, rstd);
  }
}

// With h = (x - mean) rstd, over a row:
//   dx = rstd (dy scale - mean of (dy scale) - h mean of (dy scale h)).
void LayerNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& stats, const Tensor& scale,
                        const Tensor& addend, LayerNormGrads* grads) {
  const int64_t channels = x.dim(-1), sample = x.num_elements() / x.dim(0);
  std::vector<double> sums(grads->sums.num_elements());
  for (int64_t row = 0; row < x.num_elements() / channels; ++row) {
    const int64_t begin = row * channels;
    const int64_t v = VectorOf(x, scale, row);
    double* sample_sums = sums.data() + begin / sample * 2 * channels;
    const double mean = Get(stats, 2 * row), rstd = Get(stats, 2 * row + 1);
    double first = 0, second = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const double d = Get(dy, begin + c), h = (Get(x, begin + c) - mean) * rstd;
      first += d * Get(scale, v + c) / channels;
      second += d * Get(scale, v + c) * h / channels;
      sample_sums[c] += d;
      sample_sums[channels + c] += d * h;
    }
    for (int64_t c = 0; c < channels; ++c) {
      const double h = (Get(x, begin + c) - mean) * rstd;
      const double dx = rstd * (Get(dy, begin + c) * Get(scale, v + c) - first - h * second);
      Put(grads->dx, begin + c, addend.defined() ? dx + Get(addend, begin + c) : dx);
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) Put(grads->sums, i, sums[i]);
}

void RmsNormForward(const RmsNormParams& params, const Tensor& x, const Tensor& scale,
                    RmsNormResult* result) {
  const int64_t channels = x.dim(-1);
  for (int64_t row = 0; row < x.num_elements() / channels; ++row) {
    double mean_square = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const double value = Get(x, row * channels + c);
      mean_square += value * value / channels;
    }
    const double rstd = 1 / std::sqrt(mean_square + params.eps);
    for (int64_t c = 0; c < channels; ++c) {
      Put(result->y, row * channels + c, Get(x, row * channels + c) * rstd * Get(scale, c));
    }
    Put(result->rstd, row, rstd);
  }
}

// With h = x rstd, over a row:  dx = rstd (dy scale - h mean of (dy scale h)).
void RmsNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& rstd, const Tensor& scale,
                      const Tensor& addend, RmsNormGrads* grads) {
  const int64_t channels = x.dim(-1), sample = x.num_elements() / x.dim(0);
  std::vector<double> sums(grads->sums.num_elements());
  for (int64_t row = 0; row < x.num_elements() / channels; ++row) {
    const int64_t begin = row * channels;
    double* sample_sums = sums.data() + begin / sample * channels;
    const double of_row = Get(rstd, row);
    double mean = 0;
    for (int64_t c = 0; c < channels; ++c) {
      const double d = Get(dy, begin + c), h = Get(x, begin + c) * of_row;
      mean += d * Get(scale, c) * h / channels;
      sample_sums[c] += d * h;
    }
    for (int64_t c = 0; c < channels; ++c) {
      const double h = Get(x, begin + c) * of_row;
      const double dx = of_row * (Get(dy, begin + c) * Get(scale, c) - h * mean);
      Put(grads->dx, begin + c, addend.defined() ? dx + Get(addend, begin + c) : dx);
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) Put(grads->sums, i, sums[i]);
}

}  // namespace dpipe::ops::ref

namespace dpipe::ops {

const LayerNormKernels LayerNormKernels::kReference = {
    ref::LayerNormForward, ref::LayerNormInputGrad, ref::RmsNormForward, ref::RmsNormInputGrad};

}  // namespace dpipe::ops
