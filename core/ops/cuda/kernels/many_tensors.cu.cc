#include "core/ops/cuda/kernels/many_tensors.h"

#include "core/ops/cuda/kernels/pack.h"
#include "core/ops/cuda/kernels/tensor_list.h"

namespace dpipe::ops::cuda {
namespace {

struct AxpbyOfAll {
  TensorList<AxpbyTensor, kAxpbyTensors> all;
  float a, b;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForEachPackOf(all, [this](const AxpbyTensor& tensor, int64_t i, int count) {
      const Pack<float> x = LoadPack(tensor.x + i, count);
      Pack<float> y = LoadPack(tensor.y + i, count);
      DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) y.v[j] = b * y.v[j] + a * x.v[j];
      StorePack(tensor.y + i, count, y);
    });
  }
};

}  // namespace

void AxpbyAll(const Stream& stream, float a, float b, const AxpbyTensor* tensors, int count) {
  AxpbyOfAll kernel = {{}, a, b};
  kernel.all.DividePacks(tensors, count);
  Launch(stream, kernel.all.blocks(), kernel);
}

}  // namespace dpipe::ops::cuda
