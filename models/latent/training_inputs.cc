#include "models/latent/training_inputs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/diffusion/draws.h"

namespace dpipe::models {

TrainingInputs::TrainingInputs(const LatentPipeline* pipeline, DataLoader* loader,
                               const InputsOptions& options,
                               std::unique_ptr<const FrozenCache> cache)
    : pipeline_(pipeline), loader_(loader), options_(options), cache_(std::move(cache)) {}

absl::StatusOr<Tensor> TrainingInputs::Load(const std::string& component, const std::string& input,
                                            int64_t step, SampleRange samples,
                                            const std::shared_ptr<Device>& device) {
  const int index = pipeline_->model().FindComponent(component);
  if (index >= 0) {
    const Denoiser& denoiser = pipeline_->denoiser();
    const std::vector<TextEncoder>& encoders = pipeline_->parts().text_encoders;
    const size_t encoder = index - kFirstTextEncoder;
    if (input == "pixels") return Pixels(step, samples, device);
    if (input == "ids" && encoder < encoders.size()) {
      return Ids(*encoders[encoder].tokenizer, step, samples, device);
    }
    if (input == "vae_noise") return Noise(RandomPurpose::kVaeNoise, step, samples, device);
    if (input == "noise") return Noise(RandomPurpose::kNoise, step, samples, device);
    if (input == "timesteps") return Timesteps(step, samples, device);
    const std::string estimate = denoiser.self_conditioning().input;
    if (!estimate.empty() && input == estimate) {  // for callers that run the denoiser once
      return Tensor::Zeros(device, LatentShape(step, samples), options_.compute_dtype);
    }
    for (const auto& condition : denoiser.conditions()) {
      if (input == condition->name()) {
        return condition->ForTraining(loader_, step, samples, device);
      }
    }
    const Sources& sources = pipeline_->model().component(index).sources;
    const auto source = sources.find(input);
    if (source != sources.end()) {
      return Cached(component, input, source->second, step, samples, device);
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

absl::StatusOr<std::vector<std::string>> TrainingInputs::Captions(int64_t step,
                                                                  SampleRange samples) {
  DPIPE_ASSIGN_OR_RETURN(std::vector<std::string> captions, loader_->Captions(step, samples));
  for (int i = 0; i < samples.size(); ++i) {
    RandomStream stream(options_.seed, step, samples.begin + i, RandomPurpose::kCaptionDrop);
    if (stream.NextUniform() < options_.caption_drop) captions[i].clear();
  }
  return captions;
}

absl::StatusOr<Tensor> TrainingInputs::Ids(const Tokenizer& tokenizer, int64_t step,
                                           SampleRange samples,
                                           const std::shared_ptr<Device>& device) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> captions, Captions(step, samples));
  Tensor ids = Tensor::Empty(device, {samples.size(), tokenizer.max_length()}, DType::kI32);
  int32_t* row = ids.data<int32_t>();
  for (const std::string& caption : captions) {
    const std::vector<int32_t> text = tokenizer.Encode(caption);
    row = std::copy(text.begin(), text.end(), row);
  }
  return ids;
}

Shape TrainingInputs::LatentShape(int64_t step, SampleRange samples) const {
  const LatentSize size = pipeline_->parts().LatentSizeOf(loader_->SizeOf(step));
  return {samples.size(), size.height, size.width, pipeline_->denoiser().latent_channels()};
}

Tensor TrainingInputs::Noise(RandomPurpose purpose, int64_t step, SampleRange samples,
                             const std::shared_ptr<Device>& device) const {
  const Shape shape = LatentShape(step, samples);
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
  const LatentSize size = pipeline_->parts().LatentSizeOf(loader_->SizeOf(step));
  diffusion::TimestepRequest request;
  request.sampling = options_.timesteps;
  request.quantiles = options_.timestep_quantiles;
  request.seed = options_.seed;
  request.step = step;
  request.first_sample = samples.begin;
  request.count = samples.size();
  request.num_positions = size.height * size.width;
  return pipeline_->objective().DrawTimesteps(request, device);
}

absl::StatusOr<Tensor> TrainingInputs::Cached(const std::string& component,
                                              const std::string& input,
                                              const nn::InputSource& source, int64_t step,
                                              SampleRange samples,
                                              const std::shared_ptr<Device>& device) {
  if (cache_ == nullptr) return absl::UnimplementedError("there is no offline cache");
  const int frozen = pipeline_->model().FindComponent(source.component);
  if (frozen == kVaeEncoder) {
    DPIPE_ASSIGN_OR_RETURN(const std::vector<int32_t> indices, loader_->Indices(step, samples));
    return cache_->Latents(indices, Noise(RandomPurpose::kVaeNoise, step, samples, device));
  }
  const int encoder = frozen - kFirstTextEncoder;
  if (encoder < static_cast<int>(pipeline_->parts().text_encoders.size())) {
    DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> captions, Captions(step, samples));
    return cache_->Embeddings(encoder, source.output, captions, device);
  }
  return absl::UnimplementedError(
      absl::StrCat("there is no offline cache of ", component, "'s input ", input));
}

absl::StatusOr<CachedInputs> MakeCachedTrainingInputs(
    const LatentPipeline* pipeline, const CacheRequest& request, const InputsOptions& options,
    const std::vector<DeviceWorker*>& workers, const std::function<void(double)>& on_progress) {
  FrozenCache::Request build;
  build.pipeline = pipeline;
  build.loader = request.loader;
  build.first_step = request.first_step;
  build.num_steps = request.num_steps;
  build.profiled_step = request.profiled_step;
  build.quantum = request.frozen_quantum;
  build.compute_dtype = options.compute_dtype;
  build.cache_folder = request.cache_folder;
  build.should_stop = request.should_stop;
  DPIPE_ASSIGN_OR_RETURN(auto cache, FrozenCache::Build(build, workers, on_progress));
  CachedInputs inputs;
  inputs.num_images = cache->num_images();
  inputs.num_captions = cache->num_captions();
  inputs.num_computed = cache->num_computed();
  inputs.num_damaged = cache->num_damaged();
  inputs.size_bytes = cache->size_bytes();
  inputs.provider =
      std::make_unique<TrainingInputs>(pipeline, request.loader, options, std::move(cache));
  if (pipeline->denoiser().frozen_weights().empty()) return inputs;
  inputs.make_rest = [pipeline](ImageSize size) { return pipeline->MakeModelBehindEncoders(size); };
  const size_t num_encoders = 1 + pipeline->parts().text_encoders.size();
  const auto& frozen = pipeline->frozen_parameters();
  for (size_t c = num_encoders; c < frozen.size(); ++c) {
    if (frozen[c] != nullptr) DPIPE_RETURN_IF_ERROR(pipeline->LoadFrozen(static_cast<int>(c)));
  }
  inputs.rest_parameters.assign(frozen.begin() + num_encoders, frozen.end());
  return inputs;
}

}  // namespace dpipe::models
