#include "core/ops/adamw_kernels.h"
#include "core/ops/cuda/adamw.h"
#include "core/ops/cuda/any_floats.h"
#include "core/ops/cuda/elementwise.h"
#include "core/ops/cuda/stream_of.h"

namespace dpipe::ops::cuda {

void AdamWStep(const AdamWFactors& factors, const Tensor& grad, Tensor* parameter, Tensor* m,
               Tensor* v) {
  const AdamWTensor tensor = {
      factors,          grad.num_elements(), grad.data<float>(), parameter->data<float>(),
      m->data<float>(), v->data<float>()};
  UpdateAdamW(StreamOf(grad), &tensor, 1);
}

double SumOfSquares(const Tensor& x) {
  const int64_t size = x.num_elements();
  const Tensor sums = DoubleWorkspace(x, PartialSums(1, size) + 1);
  double* const sum = DoublesOf(sums);
  SumOfSquaresOf(StreamOf(x), size, x.data<float>(), sum + 1, sum);
  double on_host = 0;
  x.device()->CopyToHost(&on_host, sum, sizeof(on_host));
  return on_host;
}

void EmaUpdate(float decay, const Tensor& value, Tensor* average) {
  const float rest = static_cast<float>(1.0 - double{decay});
  MapEma(StreamOf(value), value.num_elements(), decay, rest, value.data<float>(),
         average->data<float>());
}

}  // namespace dpipe::ops::cuda
