#include <algorithm>
#include <vector>

#include "core/ops/cuda/kernels/many_tensors.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/optimizer/many_tensors_kernels.h"

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

}  // namespace dpipe::ops::cuda
