#include "core/ops/elementwise/add_kernels.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::ref {

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

}  // namespace dpipe::ops::ref
