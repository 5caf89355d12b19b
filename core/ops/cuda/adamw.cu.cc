#include "core/ops/cuda/adamw.h"

#include <cmath>

#include "core/ops/cuda/pack.h"

namespace dpipe::ops::cuda {
namespace {

struct UpdateAll {
  AdamWTensor tensors[kAdamWTensors];
  uint32_t end_blocks[kAdamWTensors];  // of each tensor's blocks; increasing

  DPIPE_KERNEL_FUNCTION void operator()() const {
    int t = 0;
    while (Block() >= end_blocks[t]) ++t;
    const uint32_t first_block = t == 0 ? 0 : end_blocks[t - 1];
    const int64_t i = (int64_t{Block() - first_block} * kThreads + Thread()) * kPack<float>;
    if (i < tensors[t].size) Update(tensors[t], i, PackCount<float>(tensors[t].size, i));
  }

  static DPIPE_KERNEL_FUNCTION void Update(const AdamWTensor& tensor, int64_t i, int count) {
    const AdamWFactors& f = tensor.factors;
    const Pack<float> grad = LoadPack(tensor.grad + i, count);
    Pack<float> p = LoadPack(tensor.parameter + i, count), m = LoadPack(tensor.m + i, count);
    Pack<float> v = LoadPack(tensor.v + i, count);
    for (int j = 0; j < kPack<float>; ++j) {
      const float g = f.grad_scale * grad.v[j];
      m.v[j] = m.v[j] + f.one_minus_beta1 * (g - m.v[j]);
      v.v[j] = f.beta2 * v.v[j] + f.one_minus_beta2 * (g * g);
      const float denominator = sqrtf(v.v[j]) * f.inverse_sqrt_bias2 + f.eps;
      p.v[j] = f.decay * p.v[j] - f.step_size * (m.v[j] / denominator);
    }
    StorePack(tensor.parameter + i, count, p);
    StorePack(tensor.m + i, count, m);
    StorePack(tensor.v + i, count, v);
  }
};

}  // namespace

void UpdateAdamW(const Stream& stream, const AdamWTensor* tensors, int count) {
  DPIPE_CHECK(count >= 0 && count <= kAdamWTensors) << count << " tensors";
  UpdateAll kernel = {};
  uint32_t blocks = 0;
  for (int t = 0; t < kAdamWTensors; ++t) {
    if (t < count) {
      kernel.tensors[t] = tensors[t];
      blocks += BlocksFor(Packs<float>(tensors[t].size));
    }
    kernel.end_blocks[t] = blocks;
  }
  Launch(stream, blocks, kernel);
}

}  // namespace dpipe::ops::cuda
