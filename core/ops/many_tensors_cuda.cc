#include <algorithm>
#include <vector>

#include "core/ops/cuda/many_tensors.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/many_tensors_kernels.h"

namespace dpipe::ops::cuda {

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

void FillZero(absl::Span<const Tensor> tensors) {
  std::vector<ZeroTensor> all;
  for (const Tensor& t : tensors) all.push_back({t.num_elements(), t.data<float>()});
  const int count = static_cast<int>(all.size());
  for (int first = 0; first < count; first += kZeroTensors) {
    ZeroAll(StreamOf(tensors[0]), &all[first], std::min(kZeroTensors, count - first));
  }
}

}  // namespace dpipe::ops::cuda
