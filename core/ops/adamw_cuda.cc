#include <algorithm>

#include "core/ops/adamw_kernels.h"
#include "core/ops/cuda/adamw.h"
#include "core/ops/cuda/any_floats.h"
#include "core/ops/cuda/elementwise.h"
#include "core/ops/cuda/stream_of.h"

namespace dpipe::ops::cuda {

void AdamWSteps(const std::vector<AdamWTask>& tasks) {
  std::vector<AdamWTensor> tensors;
  for (const AdamWTask& task : tasks) {
    tensors.push_back({task.factors, task.grad.num_elements(), task.grad.data<float>(),
                       task.parameter.data<float>(), task.m.data<float>(), task.v.data<float>()});
  }
  const int count = static_cast<int>(tensors.size());
  for (int first = 0; first < count; first += kAdamWTensors) {
    UpdateAdamW(StreamOf(tasks[0].grad), &tensors[first], std::min(kAdamWTensors, count - first));
  }
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
