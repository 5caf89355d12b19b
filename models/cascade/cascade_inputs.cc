#include "models/cascade/cascade_inputs.h"

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"
#include "core/ops/image/resize.h"
#include "models/diffusion/draws.h"

namespace dpipe::models {
namespace {

// Independent streams: the golden ratio's bits spread the seeds.
enum class Stream : uint64_t { kBase = 1, kSuperResolution = 2, kLowResolution = 3 };
uint64_t SeedOf(uint64_t seed, Stream stream) {
  return seed + static_cast<uint64_t>(stream) * 0x9E3779B97F4A7C15u;
}

}  // namespace

absl::StatusOr<Tensor> CascadeInputs::Load(const std::string& component, const std::string& input,
                                           int64_t step, SampleRange samples,
                                           const std::shared_ptr<Device>& device) {
  const int index = cascade_->model().FindComponent(component);
  if (index >= 0) {
    const CascadePart& part = cascade_->part(index);
    const ImageSize size = cascade_->SizeOf(index, loader_->SizeOf(step));
    const ImageSize low_size = cascade_->SizeOf(kBase, loader_->SizeOf(step));
    const uint64_t seed =
        SeedOf(options_.seed, index == kBase ? Stream::kBase : Stream::kSuperResolution);
    const uint64_t low_seed = SeedOf(options_.seed, Stream::kLowResolution);
    if (input == "pixels") return Pixels(step, samples, size, device);
    if (input == "noise") return Noise(seed, step, samples, size, /*offset=*/true, device);
    if (input == "timesteps") {
      return Timesteps(seed, part, step, samples, device);
    }
    if (input == "estimate") {  // for callers that run the U-Net once
      return Tensor::Zeros(device, {samples.size(), size.height, size.width, 3},
                           options_.compute_dtype);
    }
    if (input == "labels") return Labels(step, samples, device);
    if (input == "low_resolution") return Pixels(step, samples, low_size, device);
    if (input == "low_noise") {
      return Noise(low_seed, step, samples, low_size, /*offset=*/false, device);
    }
    if (input == "noise_levels") {
      return diffusion::DrawTimesteps(device, low_seed, step, samples.begin, samples.size(),
                                      cascade_->max_noise_level());
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("component ", component, " has no input ", input));
}

absl::StatusOr<Tensor> CascadeInputs::Pixels(int64_t step, SampleRange samples, ImageSize size,
                                             const std::shared_ptr<Device>& device) {
  const ImageSize large = loader_->SizeOf(step);
  Tensor pixels =
      Tensor::Empty(device, {samples.size(), large.height, large.width, 3}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(loader_->LoadPixels(step, samples, pixels.data<float>()));
  while (pixels.dim(1) > size.height) {
    DPIPE_ASSIGN_OR_RETURN(pixels, ops::AveragePool2xForward(pixels));
  }
  return pixels;
}

absl::StatusOr<Tensor> CascadeInputs::Labels(int64_t step, SampleRange samples,
                                             const std::shared_ptr<Device>& device) {
  const ClassLabels& labels = *cascade_->labels();
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> captions, loader_->Captions(step, samples));
  Tensor rows = Tensor::Empty(device, {samples.size()}, DType::kI32);
  for (int i = 0; i < samples.size(); ++i) {
    RandomStream stream(options_.seed, step, samples.begin + i, RandomPurpose::kCaptionDrop);
    const bool drop = labels.has_no_class() && stream.NextUniform() < options_.caption_drop;
    DPIPE_ASSIGN_OR_RETURN(rows.data<int32_t>()[i],
                           labels.LabelOf(drop ? std::string() : captions[i]));
  }
  return rows;
}

Tensor CascadeInputs::Noise(uint64_t seed, int64_t step, SampleRange samples, ImageSize size,
                            bool offset, const std::shared_ptr<Device>& device) const {
  Tensor noise =
      diffusion::DrawNoise(device, seed, step, samples.begin,
                           {samples.size(), size.height, size.width, 3}, RandomPurpose::kNoise);
  if (offset && options_.offset_noise != 0) {
    diffusion::AddOffsetNoise(options_.offset_noise, seed, step, samples.begin, &noise);
  }
  return noise;
}

Tensor CascadeInputs::Timesteps(uint64_t seed, const CascadePart& part, int64_t step,
                                SampleRange samples, const std::shared_ptr<Device>& device) const {
  diffusion::TimestepRequest request;
  request.sampling = options_.timesteps;
  request.quantiles = options_.timestep_quantiles;
  request.seed = seed;
  request.step = step;
  request.first_sample = samples.begin;
  request.count = samples.size();
  return part.objective->DrawTimesteps(request, device);
}

}  // namespace dpipe::models
