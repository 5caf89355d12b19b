#include <algorithm>

#include "core/ops/cuda/any_floats.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/diffusion/diffusion_kernels.h"

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

void MseLossForward(const Tensor& prediction, const Tensor& target, const Tensor& weights,
                    Tensor* loss) {
  const int64_t batch = prediction.dim(0), size = prediction.num_elements() / batch;
  const Tensor partial = DoubleWorkspace(prediction, PartialSums(batch, size));
  MeanSquaredError(StreamOf(prediction), batch, size, FloatsOf(prediction), FloatsOf(target),
                   DataOrNull(weights), DoublesOf(partial), loss->data<float>());
}

void MseLossInputGrad(const Tensor& prediction, const Tensor& target, const Tensor& weights,
                      const Tensor& d_loss, Tensor* dp) {
  const int64_t batch = prediction.dim(0), size = prediction.num_elements() / batch;
  MeanSquaredErrorGrad(StreamOf(prediction), batch, size, FloatsOf(prediction), FloatsOf(target),
                       DataOrNull(weights), d_loss.data<float>(), MutableFloatsOf(*dp));
}

}  // namespace dpipe::ops::cuda

namespace dpipe::ops {

const DiffusionKernels DiffusionKernels::kCuda = {cuda::CombineSamples, cuda::CombineSamples,
                                                  cuda::MseLossForward, cuda::MseLossInputGrad};

}  // namespace dpipe::ops
