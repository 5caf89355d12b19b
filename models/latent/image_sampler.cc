#include "models/latent/image_sampler.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/host/available_memory.h"
#include "core/tensor/pass_workers.h"
#include "models/diffusion/draws.h"
#include "models/diffusion/sampler.h"
#include "models/vae/vae.h"

namespace dpipe::models {
namespace {

// Converts [H, W, 3] floats in [-1, 1] to bytes.
Image ToImage(const float* pixels, int height, int width) {
  Image image(width, height);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const float scaled = (pixels[i] + 1.0f) * 127.5f;
    image.pixels[i] = static_cast<uint8_t>(std::lround(std::clamp(scaled, 0.0f, 255.0f)));
  }
  return image;
}

}  // namespace

absl::StatusOr<ImageSampler::Network> ImageSampler::LoadNetwork(nn::Program program,
                                                                const NamedTensors& parameters) {
  Network network;
  network.own = std::make_unique<nn::Program>(std::move(program));
  network.program = network.own.get();
  auto set = std::make_unique<nn::ParameterSet>(*network.program, network.program->all_layers(),
                                                Device::Cpu());
  DPIPE_RETURN_IF_ERROR(set->Load(parameters));
  network.passes = std::make_unique<nn::Inference>(std::move(set));
  return network;
}

absl::StatusOr<ImageSampler::Network> ImageSampler::FrozenNetwork(int component) const {
  DPIPE_RETURN_IF_ERROR(pipeline_->LoadFrozen(component));
  Network network;
  network.program = &pipeline_->model().component(component).program;
  network.passes = std::make_unique<nn::Inference>(pipeline_->frozen_parameters()[component]);
  return network;
}

absl::StatusOr<std::unique_ptr<ImageSampler>> ImageSampler::Create(const LatentPipeline* pipeline,
                                                                   const NamedTensors& parameters,
                                                                   DType compute_dtype) {
  auto sampler = std::unique_ptr<ImageSampler>(new ImageSampler());
  sampler->pipeline_ = pipeline;
  sampler->compute_dtype_ = compute_dtype;
  DPIPE_ASSIGN_OR_RETURN(nn::Program denoiser,
                         pipeline->denoiser().BuildForDrawing(pipeline->latent_size()));
  DPIPE_ASSIGN_OR_RETURN(
      nn::Program decoder,
      BuildVaeDecoder(pipeline->parts().vae, pipeline->image_size(), pipeline->image_size()));
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors decoder_weights, pipeline->LoadDecoder(decoder));
  DPIPE_ASSIGN_OR_RETURN(sampler->denoiser_, LoadNetwork(std::move(denoiser), parameters));
  DPIPE_ASSIGN_OR_RETURN(sampler->decoder_, LoadNetwork(std::move(decoder), decoder_weights));
  DPIPE_ASSIGN_OR_RETURN(sampler->vae_encoder_, sampler->FrozenNetwork(kVaeEncoder));
  for (size_t i = 0; i < pipeline->parts().text_encoders.size(); ++i) {
    DPIPE_ASSIGN_OR_RETURN(sampler->text_encoders_.emplace_back(),
                           sampler->FrozenNetwork(kFirstTextEncoder + static_cast<int>(i)));
  }
  return sampler;
}

absl::StatusOr<NamedTensors> ImageSampler::Run(const Network& network,
                                               const std::shared_ptr<Device>& device,
                                               const NamedTensors& inputs) const {
  const nn::Program& program = *network.program;
  nn::ValueMap values;
  for (const auto& [name, tensor] : inputs) values[program.InputNamed(name)] = tensor;
  nn::RunOptions options;
  options.compute_dtype = compute_dtype_;
  DPIPE_RETURN_IF_ERROR(
      network.passes->Forward(program, program.all_layers(), device, options, &values));
  NamedTensors outputs;
  for (ValueId id : program.outputs()) outputs[program.value(id).name] = values[id];
  return outputs;
}

// Encodes one prompt at a time, because the choice of kernels may depend on the number of samples.
absl::StatusOr<NamedTensors> ImageSampler::Embed(const std::string& prompt,
                                                 const std::shared_ptr<Device>& device) const {
  const std::vector<TextEncoder>& encoders = pipeline_->parts().text_encoders;
  NamedTensors embeddings;
  for (size_t i = 0; i < encoders.size(); ++i) {
    const std::vector<int32_t> ids = encoders[i].tokenizer->Encode(prompt);
    const Tensor tokens = Tensor::FromHost<int32_t>(
        HostDeviceFor(device), {1, static_cast<int64_t>(ids.size())}, absl::MakeConstSpan(ids));
    DPIPE_ASSIGN_OR_RETURN(const NamedTensors outputs,
                           Run(text_encoders_[i], device, {{"ids", tokens}}));
    for (const auto& [input, source] : pipeline_->denoiser().embeddings()) {
      if (source.component == encoders[i].name) embeddings[input] = outputs.at(source.output);
    }
  }
  return embeddings;
}

absl::StatusOr<NamedTensors> ImageSampler::EmbedAll(const std::vector<std::string>& prompts,
                                                    const std::shared_ptr<Device>& device) const {
  std::map<std::string, NamedTensors> embedded;
  std::map<std::string, std::vector<Tensor>> rows;
  for (const std::string& prompt : prompts) {
    if (embedded.count(prompt) == 0) {
      DPIPE_ASSIGN_OR_RETURN(embedded[prompt], Embed(prompt, device));
    }
    for (const auto& [input, tensor] : embedded[prompt]) rows[input].push_back(tensor);
  }
  NamedTensors all;
  for (const auto& [input, tensors] : rows) all[input] = ConcatBatch(tensors);
  return all;
}

float ImageSampler::GuidanceOf(const DrawOptions& options) const {
  return pipeline_->denoiser().embeds_guidance() ? 1.0f : options.guidance;
}

absl::Status ImageSampler::CheckConditions(size_t num_prompts,
                                           const std::vector<Image>& conditions) const {
  size_t expected = 0;
  for (const auto& condition : pipeline_->denoiser().conditions()) {
    if (condition->reads_picture()) expected = num_prompts;
  }
  if (conditions.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("there are ", conditions.size(),
                                                   " condition pictures for ", num_prompts,
                                                   " prompts; this model wants ", expected));
  }
  const int size = pipeline_->image_size();
  for (const Image& condition : conditions) {
    if (condition.width == size && condition.height == size) continue;
    return absl::InvalidArgumentError(absl::StrCat("a condition picture is ", condition.width,
                                                   " x ", condition.height, " pixels, expected ",
                                                   size, " x ", size));
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> ImageSampler::FixedInputs(
    const Batch& batch, const DrawOptions& options, const std::shared_ptr<Device>& device) const {
  const int count = static_cast<int>(batch.prompts.size());
  const bool guided = diffusion::IsGuided(GuidanceOf(options));
  const bool with_zeros = guided && pipeline_->parts().zeros_without_text;
  std::vector<std::string> texts(guided && !with_zeros ? count : 0);
  texts.insert(texts.end(), batch.prompts.begin(), batch.prompts.end());
  DPIPE_ASSIGN_OR_RETURN(NamedTensors inputs, EmbedAll(texts, device));
  for (auto& [input, rows] : inputs) {
    if (!with_zeros) break;
    rows = ConcatBatch({Tensor::Zeros(rows.device(), rows.shape(), rows.dtype()), rows});
  }
  const int size = pipeline_->image_size();
  const DrawnPictures pictures = {count, {size, size}, &options, &batch.conditions};
  for (const auto& condition : pipeline_->denoiser().conditions()) {
    DPIPE_ASSIGN_OR_RETURN(const Tensor rows,
                           condition->ForDrawing(pictures, HostDeviceFor(device)));
    inputs[condition->name()] = guided ? ConcatBatch({rows, rows}) : rows;
  }
  return inputs;
}

absl::StatusOr<Tensor> ImageSampler::LatentsOf(const Batch& batch, const DrawOptions& options,
                                               const Tensor& noise,
                                               const std::shared_ptr<Device>& device,
                                               const std::function<void()>& on_step) const {
  const std::shared_ptr<Device> host = HostDeviceFor(device);
  DPIPE_ASSIGN_OR_RETURN(NamedTensors inputs, FixedInputs(batch, options, device));
  const std::string estimate = pipeline_->denoiser().self_conditioning().input;
  auto predict = [&](const Tensor& x, const Tensor& timesteps) -> absl::StatusOr<Tensor> {
    if (options.should_stop && options.should_stop()) {
      return absl::CancelledError("drawing was stopped");
    }
    inputs["noisy_latents"] = x;
    inputs["timesteps"] = timesteps;
    if (!estimate.empty() && inputs.count(estimate) == 0) {
      inputs[estimate] = Tensor::Zeros(host, x.shape(), compute_dtype_);
    }
    DPIPE_ASSIGN_OR_RETURN(const NamedTensors outputs, Run(denoiser_, device, inputs));
    const Tensor& prediction = outputs.at("prediction");
    // The next step reads this prediction.
    if (!estimate.empty()) {
      inputs[estimate] = compute_dtype_ == DType::kF32 ? prediction : prediction.To(compute_dtype_);
    }
    return prediction;
  };
  return pipeline_->objective().Draw(
      options, batch.first, noise, diffusion::WithGuidance(predict, GuidanceOf(options)), on_step);
}

absl::StatusOr<Tensor> ImageSampler::DrawLatents(const std::vector<std::string>& prompts,
                                                 const DrawOptions& options, const Tensor& noise,
                                                 const std::shared_ptr<Device>& device) const {
  DPIPE_RETURN_IF_ERROR(pipeline_->objective().CheckDraw(options));
  return LatentsOf({prompts, /*conditions=*/{}, /*first=*/0}, options, noise, device, [] {});
}

absl::Status ImageSampler::DrawBatch(const Batch& batch, const DrawOptions& options,
                                     const std::shared_ptr<Device>& device,
                                     const std::function<void()>& on_step, Image* images) const {
  const int count = static_cast<int>(batch.prompts.size());
  const LatentSize size = pipeline_->latent_size();
  const Tensor noise = diffusion::DrawNoise(
      HostDeviceFor(device), options.seed, /*step=*/0, batch.first,
      {count, size.height, size.width, pipeline_->denoiser().latent_channels()},
      RandomPurpose::kSample);
  DPIPE_ASSIGN_OR_RETURN(const Tensor latents, LatentsOf(batch, options, noise, device, on_step));
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors decoded, Run(decoder_, device, {{"latents", latents}}));
  const Tensor& pixels = decoded.at("pixels");
  DPIPE_RETURN_IF_ERROR(CheckPictures(pixels, batch.prompts));
  const int64_t per_image = pixels.num_elements() / count;
  const int side = pipeline_->image_size();
  for (int i = 0; i < count; ++i) {
    images[i] = ToImage(pixels.data<float>() + i * per_image, side, side);
  }
  return absl::OkStatus();
}

int64_t ImageSampler::DeviceBytes(int batch) const {
  std::vector<const nn::Program*> programs = {vae_encoder_.program, denoiser_.program,
                                              decoder_.program};
  for (const Network& encoder : text_encoders_) programs.push_back(encoder.program);
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
  DPIPE_RETURN_IF_ERROR(pipeline_->objective().CheckDraw(options));
  const int side = pipeline_->image_size();
  DPIPE_RETURN_IF_ERROR(
      CheckMemoryFor(absl::StrCat(prompts.size(), " images of ", side, " pixels per side"),
                     3.0 * static_cast<double>(prompts.size()) * side * side));
  const int samples_at_once = diffusion::IsGuided(GuidanceOf(options)) ? 2 : 1;
  DPIPE_ASSIGN_OR_RETURN(
      const PassWorkers chosen,
      PassWorkers::Choose(workers, DeviceBytes(samples_at_once * options.batch)));
  std::vector<Image> images(prompts.size());
  const int total = static_cast<int>(prompts.size());
  const int num_batches = (total + options.batch - 1) / options.batch;
  const double total_calls = 1.0 * num_batches * pipeline_->objective().NumModelCalls(options);
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
  const int size = pipeline_->image_size();
  if (image.width != size || image.height != size) {
    return absl::InvalidArgumentError(absl::StrCat("an image is ", image.width, " x ", image.height,
                                                   " pixels, expected ", size, " x ", size));
  }
  const std::shared_ptr<Device> host = HostDeviceFor(device);
  Tensor pixels = Tensor::Empty(host, {1, size, size, 3}, DType::kF32);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    pixels.data<float>()[i] = image.pixels[i] / 127.5f - 1.0f;
  }
  const nn::Program& encoder = *vae_encoder_.program;
  // Without noise the latents are the encoder's mean.
  const Tensor noise =
      Tensor::Zeros(host, encoder.BatchShape(encoder.InputNamed("vae_noise"), 1), DType::kF32);
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors encoded,
                         Run(vae_encoder_, device, {{"pixels", pixels}, {"vae_noise", noise}}));
  DPIPE_ASSIGN_OR_RETURN(const NamedTensors decoded,
                         Run(decoder_, device, {{"latents", encoded.at("latents")}}));
  return ToImage(decoded.at("pixels").data<float>(), size, size);
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
