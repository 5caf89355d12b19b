#include <algorithm>

#include "core/ops/cuda/any_floats.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/diffusion/combine_kernels.h"

namespace dpipe::ops::cuda {

void CombineSamples(absl::Span<const float> x_weights, const Tensor& x,
                    absl::Span<const float> y_weights, const Tensor& y, Tensor* z) {
  const int64_t batch = x.dim(0), size = x.num_elements() / batch;
  for (int64_t begin = 0; begin < batch; begin += kCombineSamples) {
    const int64_t end = std::min<int64_t>(batch, begin + kCombineSamples);
    CombineWeights weights = {};
    std::copy(x_weights.begin() + begin, x_weights.begin() + end, weights.x);
    std::copy(y_weights.begin() + begin, y_weights.begin() + end, weights.y);
    const Tensor part = z->Slice(begin, end);
    CombineElements(StreamOf(x), weights, end - begin, size, FloatsOf(x.Slice(begin, end)),
                    FloatsOf(y.Slice(begin, end)), MutableFloatsOf(part));
  }
}

void CombineSamples(const Tensor& x_weights, const Tensor& x, const Tensor& y_weights,
                    const Tensor& y, Tensor* z) {
  CombineElements(StreamOf(x), x_weights.data<float>(), y_weights.data<float>(), x.dim(0),
                  x.num_elements() / x.dim(0), FloatsOf(x), FloatsOf(y), MutableFloatsOf(*z));
}

void LookUp(absl::Span<const float> table, const Tensor& index, Tensor* y) {
  LookUpEntries(StreamOf(index), table.data(), static_cast<int64_t>(table.size()), index.dim(0),
                index.data<int32_t>(), y->data<float>());
}

}  // namespace dpipe::ops::cuda
