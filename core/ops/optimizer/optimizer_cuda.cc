#include <algorithm>
#include <vector>

#include "core/ops/cuda/any_floats.h"
#include "core/ops/cuda/kernels/optimizer.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/optimizer/optimizer_kernels.h"
#include "core/tensor/device_work.h"

namespace dpipe::ops::cuda {

void AdamWSteps(const std::vector<AdamWTask>& tasks) {
  std::vector<AdamWTensor> tensors;
  for (const AdamWTask& task : tasks) {
    tensors.push_back({task.factors, task.grad.num_elements(), task.grad.data<float>(),
                       task.parameter.data<float>(), task.m.data<float>(), task.v.data<float>()});
    CountWork(0, 7.0 * static_cast<double>(task.grad.size_bytes()));  // all but it also written
  }
  const int count = static_cast<int>(tensors.size());
  for (int first = 0; first < count; first += kAdamWTensors) {
    UpdateAdamW(StreamOf(tasks[0].grad), &tensors[first], std::min(kAdamWTensors, count - first));
  }
}

void AdamWPredict(const AdamWFactors& factors, absl::Span<const AdamWPrediction> predictions) {
  std::vector<AdamWPredictTensor> tensors;
  for (const AdamWPrediction& prediction : predictions) {
    tensors.push_back({prediction.parameter.num_elements(), prediction.parameter.data<float>(),
                       prediction.m.data<float>(), prediction.v.data<float>()});
  }
  const int count = static_cast<int>(tensors.size());
  for (int first = 0; first < count; first += kAdamWPredictTensors) {
    PredictAdamW(StreamOf(predictions[0].parameter), factors, &tensors[first],
                 std::min(kAdamWPredictTensors, count - first));
  }
}

void AdamWInt8Steps(const std::vector<AdamWInt8Task>& tasks) {
  std::vector<AdamWInt8Tensor> tensors;
  for (const AdamWInt8Task& task : tasks) {
    tensors.push_back({task.factors, task.grad.num_elements(), task.m->block_size(),
                       task.grad.data<float>(), task.parameter.data<float>(), task.m->codes(),
                       task.root_v->codes(), task.m->scales(), task.root_v->scales()});
  }
  const int count = static_cast<int>(tensors.size());
  for (int first = 0; first < count; first += kAdamWInt8Tensors) {
    UpdateAdamWInt8(StreamOf(tasks[0].grad), &tensors[first],
                    std::min(kAdamWInt8Tensors, count - first));
  }
}

void SumsOfSquares(absl::Span<const Tensor> tensors, std::vector<double>* sums_of_squares) {
  std::vector<SquaresTensor> all;
  int64_t partials = 0;  // as if all were in one launch
  for (const Tensor& x : tensors) {
    all.push_back({x.num_elements(), x.data<float>()});
    CountWork(0, static_cast<double>(x.size_bytes()));
    partials += SquaresPartials(x.num_elements());
  }
  const int count = static_cast<int>(all.size());
  const Tensor workspace = DoubleWorkspace(tensors[0], count + partials);
  double* const sums = DoublesOf(workspace);
  for (int first = 0; first < count; first += kSquaresTensors) {
    SumSquares(StreamOf(tensors[0]), &all[first], std::min(kSquaresTensors, count - first),
               sums + count, sums + first);
  }
  sums_of_squares->resize(count);
  tensors[0].device()->CopyToHost(sums_of_squares->data(), sums, count * sizeof(double));
}

void Axpby(float a, float b, absl::Span<const AxpbyPair> pairs) {
  std::vector<AxpbyTensor> tensors;
  for (const AxpbyPair& pair : pairs) {
    tensors.push_back({pair.y.num_elements(), pair.x.data<float>(), pair.y.data<float>()});
  }
  const int count = static_cast<int>(tensors.size());
  for (int first = 0; first < count; first += kAxpbyTensors) {
    AxpbyAll(StreamOf(pairs[0].y), a, b, &tensors[first], std::min(kAxpbyTensors, count - first));
  }
}

}  // namespace dpipe::ops::cuda

namespace dpipe::ops {

const OptimizerKernels OptimizerKernels::kCuda = {
    cuda::AdamWSteps, cuda::AdamWPredict, cuda::AdamWInt8Steps, cuda::SumsOfSquares, cuda::Axpby};

}  // namespace dpipe::ops
