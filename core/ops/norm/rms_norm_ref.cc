#include <cmath>
#include <vector>

#include "core/ops/norm/rms_norm_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {

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
