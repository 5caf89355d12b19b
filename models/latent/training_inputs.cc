#include "models/latent/training_inputs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/diffusion/draws.h"
#include "models/latent/coordinates.h"

namespace dpipe::models {

absl::StatusOr<Tensor> TrainingInputs::Load(const std::string& component, const std::string& input,
                                            int64_t step, SampleRange samples,
                                            const std::shared_ptr<Device>& device) {
  const int index = model_->model().FindComponent(component);
  if (index >= 0) {
    const nn::Program& program = model_->model().component(index).program;
    if (input == "pixels") return Pixels(step, samples, device);
    if (input == "ids") return Ids(step, samples, device);
    if (input == "vae_noise") {
      return Noise(program, input, RandomPurpose::kVaeNoise, step, samples, device);
    }
    if (input == "noise") {
      return Noise(program, input, RandomPurpose::kNoise, step, samples, device);
    }
    if (input == "estimate") {  // for callers that run the U-Net once
      return Tensor::Zeros(device, LatentShape(program, input, step, samples),
                           options_.compute_dtype);
    }
    if (input == "coordinates") return Coordinates(step, samples, device);
    if (input == "condition") return Conditions(step, samples, device);
    if (input == "timesteps") return Timesteps(step, samples, device);
    if (input == "latents" || input == "context") {
      if (cache_ == nullptr) return absl::UnimplementedError("there is no offline cache");
      if (input == "latents") return CachedLatents(step, samples, device);
      DPIPE_ASSIGN_OR_RETURN(const auto tokens, Tokens(step, samples));
      return cache_->Context(tokens, device);
    }
    if (model_->model().component(index).sources.count(input) > 0) {
      return absl::UnimplementedError(
          absl::StrCat("there is no offline cache of ", component, "'s input ", input));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("component ", component, " has no input ", input));
}

absl::StatusOr<Tensor> TrainingInputs::Pixels(int64_t step, SampleRange samples,
                                              const std::shared_ptr<Device>& device) {
  const ImageSize size = loader_->SizeOf(step);
  Tensor pixels = Tensor::Empty(device, {samples.size(), size.height, size.width, 3}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(loader_->LoadPixels(step, samples, pixels.data<float>()));
  return pixels;
}

absl::StatusOr<Tensor> TrainingInputs::Conditions(int64_t step, SampleRange samples,
                                                  const std::shared_ptr<Device>& device) {
  const ImageSize size = loader_->SizeOf(step);
  Tensor pixels = Tensor::Empty(device, {samples.size(), size.height, size.width, 3}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(loader_->LoadConditions(step, samples, pixels.data<float>()));
  return pixels;
}

absl::StatusOr<std::vector<std::vector<int32_t>>> TrainingInputs::Tokens(int64_t step,
                                                                         SampleRange samples) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> captions, loader_->Captions(step, samples));
  std::vector<std::vector<int32_t>> tokens;
  for (int i = 0; i < samples.size(); ++i) {
    RandomStream stream(options_.seed, step, samples.begin + i, RandomPurpose::kCaptionDrop);
    const bool drop = stream.NextUniform() < options_.caption_drop;
    tokens.push_back(model_->tokenizer().Encode(drop ? std::string() : captions[i]));
  }
  return tokens;
}

absl::StatusOr<Tensor> TrainingInputs::Ids(int64_t step, SampleRange samples,
                                           const std::shared_ptr<Device>& device) {
  DPIPE_ASSIGN_OR_RETURN(const auto tokens, Tokens(step, samples));
  const int64_t length = model_->tokenizer().max_length();
  Tensor ids = Tensor::Empty(device, {samples.size(), length}, DType::kI32);
  int32_t* row = ids.data<int32_t>();
  for (const std::vector<int32_t>& text : tokens) row = std::copy(text.begin(), text.end(), row);
  return ids;
}

Tensor TrainingInputs::Coordinates(int64_t step, SampleRange samples,
                                   const std::shared_ptr<Device>& device) const {
  std::vector<Patch> patches;
  for (int i = samples.begin; i < samples.end; ++i) patches.push_back(loader_->PatchOf(step, i));
  return PatchCoordinates(device, patches, model_->vae_config().downscale());
}

Shape TrainingInputs::LatentShape(const nn::Program& program, const std::string& input,
                                  int64_t step, SampleRange samples) const {
  const ImageSize size = loader_->SizeOf(step);
  const int64_t downscale = model_->vae_config().downscale();
  Shape shape = program.BatchShape(program.InputNamed(input), samples.size());
  shape.Set(1, size.height / downscale);
  shape.Set(2, size.width / downscale);
  return shape;
}

Tensor TrainingInputs::Noise(const nn::Program& program, const std::string& input,
                             RandomPurpose purpose, int64_t step, SampleRange samples,
                             const std::shared_ptr<Device>& device) const {
  const Shape shape = LatentShape(program, input, step, samples);
  if (purpose == RandomPurpose::kVaeNoise && options_.mean_latents) {
    return Tensor::Zeros(device, shape, DType::kF32);
  }
  Tensor noise = diffusion::DrawNoise(device, options_.seed, step, samples.begin, shape, purpose);
  if (purpose == RandomPurpose::kNoise && options_.offset_noise != 0) {
    diffusion::AddOffsetNoise(options_.offset_noise, options_.seed, step, samples.begin, &noise);
  }
  return noise;
}

Tensor TrainingInputs::Timesteps(int64_t step, SampleRange samples,
                                 const std::shared_ptr<Device>& device) const {
  if (options_.timestep_quantiles.empty()) {
    return timesteps_.Draw(device, options_.seed, step, samples.begin, samples.size());
  }
  return diffusion::TimestepsAtQuantiles(device, options_.timestep_quantiles, samples.begin,
                                         samples.size(), model_->schedule().num_timesteps());
}

absl::StatusOr<Tensor> TrainingInputs::CachedLatents(int64_t step, SampleRange samples,
                                                     const std::shared_ptr<Device>& device) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int32_t> indices, loader_->Indices(step, samples));
  const nn::Program& encoder = model_->model().component(kVaeEncoder).program;
  return cache_->Latents(
      indices, Noise(encoder, "vae_noise", RandomPurpose::kVaeNoise, step, samples, device));
}

}  // namespace dpipe::models
