#include "models/diffusion/draws.h"

#include "core/base/check.h"

namespace dpipe::diffusion {

Tensor DrawNoise(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
                 uint32_t first_sample, const Shape& shape, RandomPurpose purpose) {
  Tensor noise = Tensor::Empty(device, shape, DType::kF32);
  const int64_t batch = shape[0];
  for (int64_t b = 0; b < batch; ++b) {
    RandomStream random(seed, step, first_sample + static_cast<uint32_t>(b), purpose);
    for (float& v : noise.Slice(b, b + 1).span<float>()) v = random.NextNormal();
  }
  return noise;
}

Tensor DrawTimesteps(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
                     uint32_t first_sample, int count, int num_timesteps) {
  DPIPE_CHECK_GT(num_timesteps, 0);
  Tensor timesteps = Tensor::Empty(device, {count}, DType::kI32);
  for (int b = 0; b < count; ++b) {
    RandomStream random(seed, step, first_sample + static_cast<uint32_t>(b),
                        RandomPurpose::kTimestep);
    timesteps.data<int32_t>()[b] = static_cast<int32_t>(random.NextBelow(num_timesteps));
  }
  return timesteps;
}

}  // namespace dpipe::diffusion
