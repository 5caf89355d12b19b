#include "models/latent/image_sampler.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/host/available_memory.h"
#include "core/tensor/pass_workers.h"
#include "models/diffusion/draws.h"
#include "models/diffusion/sampler.h"
#include "models/latent/coordinates.h"
#include "models/unet/unet.h"
#include "models/vae/vae.h"

namespace dpipe::models {
namespace {

// Runs one forward pass of a whole program on `device` and returns its only output. All tensors are
// on the host.
absl::StatusOr<Tensor> RunProgram(const nn::Program& program, nn::Inference* passes,
                                  DType compute_dtype, const std::shared_ptr<Device>& device,
                                  const std::map<std::string, Tensor>& inputs) {
  nn::ValueMap values;
  for (const auto& [name, tensor] : inputs) values[program.InputNamed(name)] = tensor;
  nn::RunOptions options;
  options.compute_dtype = compute_dtype;
  DPIPE_RETURN_IF_ERROR(passes->Forward(program, program.all_layers(), device, options, &values));
  return values[program.outputs()[0]];
}

absl::StatusOr<std::unique_ptr<nn::Inference>> LoadedInference(
    const nn::Program& program, const std::map<std::string, Tensor>& parameters) {
  auto own = std::make_unique<nn::ParameterSet>(program, program.all_layers(), Device::Cpu());
  DPIPE_RETURN_IF_ERROR(own->Load(parameters));
  return std::make_unique<nn::Inference>(std::move(own));
}

// Converts [H, W, 3] floats in [-1, 1] to bytes.
Image ToImage(const float* pixels, int height, int width) {
  Image image(width, height);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const float scaled = (pixels[i] + 1.0f) * 127.5f;
    image.pixels[i] = static_cast<uint8_t>(std::lround(std::clamp(scaled, 0.0f, 255.0f)));
  }
  return image;
}

// Returns images of one size as fp32 [n, height, width, 3] in [0, 1].
Tensor ConditionTensor(const std::vector<Image>& images, const std::shared_ptr<Device>& device) {
  const int64_t count = static_cast<int64_t>(images.size());
  Tensor tensor = Tensor::Empty(device, {count, images[0].height, images[0].width, 3}, DType::kF32);
  float* out = tensor.data<float>();
  for (const Image& image : images) {
    for (uint8_t byte : image.pixels) *out++ = byte / 255.0f;
  }
  return tensor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageSampler>> ImageSampler::Create(
    const StableDiffusion* model, const std::map<std::string, Tensor>& unet, DType compute_dtype) {
  DPIPE_ASSIGN_OR_RETURN(nn::Program program,
                         BuildUNetForInference(model->unet_config(), model->unet_shape()));
  return Create(model, std::move(program), unet, compute_dtype);
}

absl::StatusOr<std::unique_ptr<ImageSampler>> ImageSampler::Create(
    const StableDiffusion* model, nn::Program denoiser,
    const std::map<std::string, Tensor>& parameters, DType compute_dtype) {
  auto sampler = std::unique_ptr<ImageSampler>(new ImageSampler());
  sampler->model_ = model;
  sampler->compute_dtype_ = compute_dtype;
  DPIPE_ASSIGN_OR_RETURN(
      nn::Program decoder_program,
      BuildVaeDecoder(model->vae_config(), model->image_size(), model->image_size()));
  sampler->unet_program_ = std::make_unique<nn::Program>(std::move(denoiser));
  sampler->decoder_program_ = std::make_unique<nn::Program>(std::move(decoder_program));
  DPIPE_ASSIGN_OR_RETURN(sampler->unet_, LoadedInference(*sampler->unet_program_, parameters));
  DPIPE_ASSIGN_OR_RETURN(const auto decoder_weights,
                         model->LoadDecoder(*sampler->decoder_program_));
  DPIPE_ASSIGN_OR_RETURN(sampler->decoder_,
                         LoadedInference(*sampler->decoder_program_, decoder_weights));
  const auto& frozen = model->frozen_parameters();
  sampler->vae_encoder_ = std::make_unique<nn::Inference>(frozen[kVaeEncoder]);
  sampler->text_encoder_ = std::make_unique<nn::Inference>(frozen[kTextEncoder]);
  return sampler;
}

absl::StatusOr<Tensor> ImageSampler::Contexts(const std::vector<std::string>& prompts,
                                              const std::shared_ptr<Device>& device) const {
  std::map<std::string, Tensor> encoded;
  std::vector<Tensor> rows;
  for (const std::string& prompt : prompts) {
    Tensor& context = encoded[prompt];
    if (!context.defined()) {
      // Encodes one at a time, because the choice of kernels may depend on the number of samples.
      const std::vector<int32_t> ids = model_->tokenizer().Encode(prompt);
      const Tensor tokens = Tensor::FromHost<int32_t>(
          HostDeviceFor(device), {1, static_cast<int64_t>(ids.size())}, absl::MakeConstSpan(ids));
      DPIPE_ASSIGN_OR_RETURN(
          context, RunProgram(model_->model().component(kTextEncoder).program, text_encoder_.get(),
                              compute_dtype_, device, {{"ids", tokens}}));
    }
    rows.push_back(context);
  }
  return ConcatBatch(rows);
}

bool ImageSampler::wants_conditions() const {
  for (ValueId id : unet_program_->inputs()) {
    if (unet_program_->value(id).name == "condition") return true;
  }
  return false;
}

absl::Status ImageSampler::CheckConditions(size_t num_prompts,
                                           const std::vector<Image>& conditions) const {
  const size_t expected = wants_conditions() ? num_prompts : 0;
  if (conditions.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", conditions.size(),
                                                   " condition pictures for ", num_prompts,
                                                   " prompts; this model wants ", expected));
  }
  const int size = model_->image_size();
  for (const Image& condition : conditions) {
    if (condition.width == size && condition.height == size) continue;
    return absl::InvalidArgumentError(absl::StrCat("a condition picture is ", condition.width,
                                                   " x ", condition.height, " pixels, expected ",
                                                   size, " x ", size));
  }
  return absl::OkStatus();
}

absl::Status ImageSampler::DrawBatch(const Batch& batch, const DrawOptions& options,
                                     const std::shared_ptr<Device>& device,
                                     const std::function<void()>& on_step, Image* images) const {
  const int count = static_cast<int>(batch.prompts.size());
  const std::shared_ptr<Device> host = HostDeviceFor(device);
  const bool guided = diffusion::IsGuided(options.guidance);
  // WithGuidance needs the unconditional half first. The condition picture guides both halves.
  std::vector<std::string> texts(guided ? count : 0);
  texts.insert(texts.end(), batch.prompts.begin(), batch.prompts.end());
  std::map<std::string, Tensor> inputs;
  DPIPE_ASSIGN_OR_RETURN(inputs["context"], Contexts(texts, device));
  if (wants_conditions()) {
    const Tensor half = ConditionTensor(batch.conditions, host);
    inputs["condition"] = guided ? ConcatBatch({half, half}) : half;
  }
  const UNetConfig& unet = model_->unet_config();
  if (unet.coordinates()) {
    const ImageSize whole{model_->image_size(), model_->image_size()};
    inputs["coordinates"] =
        PatchCoordinates(host, std::vector<Patch>(texts.size(), {0, 0, whole, whole}),
                         model_->vae_config().downscale());
  }
  auto predict = [&](const Tensor& x, const Tensor& timesteps) -> absl::StatusOr<Tensor> {
    if (options.should_stop && options.should_stop()) {
      return absl::CancelledError("drawing was stopped");
    }
    inputs["noisy_latents"] = x;
    inputs["timesteps"] = timesteps;
    if (unet.self_conditioning() && inputs.count("estimate") == 0) {
      inputs["estimate"] = Tensor::Zeros(host, x.shape(), compute_dtype_);
    }
    DPIPE_ASSIGN_OR_RETURN(const Tensor prediction,
                           RunProgram(*unet_program_, unet_.get(), compute_dtype_, device, inputs));
    // The next step reads this prediction.
    if (unet.self_conditioning()) {
      inputs["estimate"] =
          compute_dtype_ == DType::kF32 ? prediction : prediction.To(compute_dtype_);
    }
    return prediction;
  };
  const int size = model_->latent_size();
  const Tensor noise =
      diffusion::DrawNoise(host, options.seed, /*step=*/0, batch.first,
                           {count, size, size, unet.out_channels}, RandomPurpose::kSample);
  diffusion::SamplerOptions sampling;
  sampling.kind = SamplerFor(options, model_->schedule());
  sampling.num_steps = options.num_steps;
  sampling.seed = options.seed;
  sampling.first_sample = batch.first;
  sampling.on_step = [&](int, const Tensor&) { on_step(); };
  DPIPE_ASSIGN_OR_RETURN(const Tensor latents,
                         diffusion::Sample(model_->schedule(), sampling, noise,
                                           diffusion::WithGuidance(predict, options.guidance)));
  DPIPE_ASSIGN_OR_RETURN(const Tensor pixels,
                         RunProgram(*decoder_program_, decoder_.get(), compute_dtype_, device,
                                    {{"latents", latents}}));
  DPIPE_RETURN_IF_ERROR(CheckPictures(pixels, batch.prompts));
  const int64_t per_image = pixels.num_elements() / count;
  for (int i = 0; i < count; ++i) {
    images[i] =
        ToImage(pixels.data<float>() + i * per_image, model_->image_size(), model_->image_size());
  }
  return absl::OkStatus();
}

int64_t ImageSampler::DeviceBytes(int batch) const {
  const std::vector<const nn::Program*> programs = {
      &model_->model().component(kVaeEncoder).program,
      &model_->model().component(kTextEncoder).program, unet_program_.get(),
      decoder_program_.get()};
  int64_t bytes = 0;
  for (const nn::Program* program : programs) {
    bytes += nn::InferenceBytes(*program, program->all_layers(), batch, compute_dtype_);
  }
  return bytes;
}

absl::StatusOr<std::vector<Image>> ImageSampler::Draw(
    const std::vector<std::string>& prompts, const DrawOptions& options,
    const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) const {
  return DrawWithConditions(prompts, /*conditions=*/{}, options, workers, on_progress);
}

absl::StatusOr<std::vector<Image>> ImageSampler::DrawWithConditions(
    const std::vector<std::string>& prompts, const std::vector<Image>& conditions,
    const DrawOptions& options, const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) const {
  DPIPE_RETURN_IF_ERROR(CheckConditions(prompts.size(), conditions));
  DPIPE_RETURN_IF_ERROR(CheckDrawOptions(options, model_->schedule()));
  const int side = model_->image_size();
  DPIPE_RETURN_IF_ERROR(
      CheckMemoryFor(absl::StrCat(prompts.size(), " images of ", side, " pixels per side"),
                     3.0 * static_cast<double>(prompts.size()) * side * side));
  const int samples_at_once = diffusion::IsGuided(options.guidance) ? 2 : 1;
  DPIPE_ASSIGN_OR_RETURN(
      const PassWorkers chosen,
      PassWorkers::Choose(workers, DeviceBytes(samples_at_once * options.batch)));
  std::vector<Image> images(prompts.size());
  const int total = static_cast<int>(prompts.size());
  const int num_batches = (total + options.batch - 1) / options.batch;
  const double total_calls = 1.0 * num_batches * NumModelCalls(options, model_->schedule());
  std::atomic<int> next{0};
  std::atomic<int> steps_done{0};
  auto on_step = [&] {
    const int done = ++steps_done;
    if (on_progress) on_progress(done / total_calls);
  };
  const auto statuses = RunOnAll(chosen.workers(), [&](int worker) -> absl::Status {
    for (int batch = next++; batch < num_batches; batch = next++) {
      const int first = batch * options.batch;
      const int last = std::min(total, first + options.batch);
      Batch part;
      part.prompts.assign(prompts.begin() + first, prompts.begin() + last);
      if (!conditions.empty()) {
        part.conditions.assign(conditions.begin() + first, conditions.begin() + last);
      }
      part.first = first;
      DPIPE_RETURN_IF_ERROR(
          DrawBatch(part, options, chosen.workers()[worker]->device(), on_step, &images[first]));
    }
    return absl::OkStatus();
  });
  DPIPE_RETURN_IF_ERROR(FirstError(statuses));
  return images;
}

absl::StatusOr<Image> ImageSampler::ReconstructOne(const Image& image,
                                                   const std::shared_ptr<Device>& device) const {
  const int size = model_->image_size();
  if (image.width != size || image.height != size) {
    return absl::InvalidArgumentError(absl::StrCat("an image is ", image.width, " x ", image.height,
                                                   " pixels, expected ", size, " x ", size));
  }
  const std::shared_ptr<Device> host = HostDeviceFor(device);
  Tensor pixels = Tensor::Empty(host, {1, size, size, 3}, DType::kF32);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    pixels.data<float>()[i] = image.pixels[i] / 127.5f - 1.0f;
  }
  const nn::Program& encoder = model_->model().component(kVaeEncoder).program;
  // Without noise the latents are the encoder's mean.
  const Tensor noise =
      Tensor::Zeros(host, encoder.BatchShape(encoder.InputNamed("vae_noise"), 1), DType::kF32);
  DPIPE_ASSIGN_OR_RETURN(const Tensor latents,
                         RunProgram(encoder, vae_encoder_.get(), compute_dtype_, device,
                                    {{"pixels", pixels}, {"vae_noise", noise}}));
  DPIPE_ASSIGN_OR_RETURN(const Tensor decoded,
                         RunProgram(*decoder_program_, decoder_.get(), compute_dtype_, device,
                                    {{"latents", latents}}));
  return ToImage(decoded.data<float>(), size, size);
}

absl::StatusOr<std::vector<Image>> ImageSampler::Reconstruct(
    const std::vector<Image>& images, const std::vector<DeviceWorker*>& workers) const {
  DPIPE_ASSIGN_OR_RETURN(const PassWorkers chosen,
                         PassWorkers::Choose(workers, DeviceBytes(/*batch=*/1)));
  std::vector<Image> results(images.size());
  std::atomic<size_t> next{0};
  const auto statuses = RunOnAll(chosen.workers(), [&](int worker) -> absl::Status {
    for (size_t i = next++; i < images.size(); i = next++) {
      DPIPE_ASSIGN_OR_RETURN(results[i],
                             ReconstructOne(images[i], chosen.workers()[worker]->device()));
    }
    return absl::OkStatus();
  });
  DPIPE_RETURN_IF_ERROR(FirstError(statuses));
  return results;
}

}  // namespace dpipe::models
