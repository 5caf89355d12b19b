#include "models/diffusion/draws.h"

#include "core/base/check.h"

namespace dpipe::diffusion {

Tensor DrawNoise(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
                 uint32_t first_sample, const Shape& shape, RandomPurpose purpose) {
  Tensor noise = Tensor::Empty(device, shape, DType::kF32);
  const int64_t batch = shape[0];
  for (int64_t b = 0; b < batch; ++b) {
    RandomStream random(seed, step, first_sample + static_cast<uint32_t>(b), purpose);
    const Tensor sample = noise.Slice(b, b + 1);
    for (float& v : sample.span<float>()) v = random.NextNormal();
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

void AddOffsetNoise(double strength, uint64_t seed, uint64_t step, uint32_t first_sample,
                    Tensor* noise) {
  const int64_t batch = noise->dim(0);
  const int64_t channels = noise->dim(-1);
  std::vector<float> offsets(channels);
  for (int64_t b = 0; b < batch; ++b) {
    RandomStream random(seed, step, first_sample + static_cast<uint32_t>(b),
                        RandomPurpose::kOffsetNoise);
    for (float& offset : offsets) offset = static_cast<float>(strength) * random.NextNormal();
    Tensor sample = noise->Slice(b, b + 1);
    int64_t channel = 0;
    for (float& v : sample.span<float>()) {
      v += offsets[channel];
      if (++channel == channels) channel = 0;
    }
  }
}

Tensor TimestepsAtQuantiles(const std::shared_ptr<Device>& device,
                            const std::vector<double>& quantiles, uint32_t first_sample, int count,
                            int num_timesteps) {
  DPIPE_CHECK(!quantiles.empty());
  Tensor timesteps = Tensor::Empty(device, {count}, DType::kI32);
  for (int b = 0; b < count; ++b) {
    const double quantile = quantiles[(first_sample + b) % quantiles.size()];
    DPIPE_CHECK(quantile >= 0 && quantile < 1) << "quantile " << quantile;
    timesteps.data<int32_t>()[b] = static_cast<int32_t>(quantile * num_timesteps);
  }
  return timesteps;
}

}  // namespace dpipe::diffusion
