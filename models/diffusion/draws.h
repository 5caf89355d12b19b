// What a training step draws at random. A draw is keyed by (seed, step, global sample index), so it
// is the same whoever makes it and however the batch is cut.
#ifndef DPIPE_MODELS_DIFFUSION_DRAWS_H_
#define DPIPE_MODELS_DIFFUSION_DRAWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/philox.h"
#include "core/tensor/tensor.h"

namespace dpipe::diffusion {

// Standard normal noise, fp32 of `shape` [B, ...]; its row b belongs to sample first_sample + b.
Tensor DrawNoise(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
                 uint32_t first_sample, const Shape& shape,
                 RandomPurpose purpose = RandomPurpose::kNoise);

// Timesteps uniform over [0, num_timesteps), int32 [count].
Tensor DrawTimesteps(const std::shared_ptr<Device>& device, uint64_t seed, uint64_t step,
                     uint32_t first_sample, int count, int num_timesteps);

// Adds `strength` times a standard normal number for each sample and channel (the last dimension)
// to all of the channel's pixels: with plain noise a sample's mean hardly changes, and a model does
// not learn to change it ("offset noise").
void AddOffsetNoise(double strength, uint64_t seed, uint64_t step, uint32_t first_sample,
                    Tensor* noise);

// Timesteps at fixed quantiles of [0, num_timesteps): sample i has floor(quantiles[i mod size] *
// num_timesteps). Each quantile is in [0, 1). int32 [count].
Tensor TimestepsAtQuantiles(const std::shared_ptr<Device>& device,
                            const std::vector<double>& quantiles, uint32_t first_sample, int count,
                            int num_timesteps);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_DRAWS_H_
