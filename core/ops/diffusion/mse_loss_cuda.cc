#include "core/ops/cuda/any_floats.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/diffusion/mse_loss_kernels.h"

namespace dpipe::ops::cuda {

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
