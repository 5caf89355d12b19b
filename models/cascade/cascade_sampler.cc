#include "models/cascade/cascade_sampler.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/tensor/pass_workers.h"
#include "models/diffusion/draws.h"
#include "models/diffusion/noising.h"
#include "models/diffusion/sampler.h"

namespace dpipe::models {
namespace {

// Converts [H, W, 3] floats in [-1, 1] to bytes.
Image ToImage(const float* pixels, int size) {
  Image image(size, size);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    const float scaled = (pixels[i] + 1.0f) * 127.5f;
    image.pixels[i] = static_cast<uint8_t>(std::lround(std::clamp(scaled, 0.0f, 255.0f)));
  }
  return image;
}

Tensor Filled(int count, int32_t value, const std::shared_ptr<Device>& device) {
  const std::vector<int32_t> values(count, value);
  return Tensor::FromHost<int32_t>(device, {count}, values);
}

// Returns noise for the base, the super-resolution model or the small picture.
Tensor DrawnNoise(int stream, const DrawOptions& options, int first, int count, int size,
                  const std::shared_ptr<Device>& device) {
  return diffusion::DrawNoise(device, options.seed, /*step=*/stream, first, {count, size, size, 3},
                              RandomPurpose::kSample);
}

// First step in DrawNoise's key after those that samplers use for fresh noise.
constexpr int kNoiseStreams = 1 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<CascadeSampler>> CascadeSampler::Create(
    const Cascade* cascade, const NamedTensors& parameters, DType compute_dtype) {
  auto sampler = std::unique_ptr<CascadeSampler>(new CascadeSampler());
  sampler->cascade_ = cascade;
  sampler->compute_dtype_ = compute_dtype;
  for (int i : {kBase, kSuperResolution}) {
    const CascadePart& part = cascade->part(i);
    DPIPE_ASSIGN_OR_RETURN(nn::Program program,
                           BuildPixelUNetForInference(part.config, part.options));
    Network& network = sampler->networks_[i];
    network.program = std::make_unique<nn::Program>(std::move(program));
    auto own = std::make_unique<nn::ParameterSet>(*network.program, network.program->all_layers(),
                                                  Device::Cpu());
    DPIPE_RETURN_IF_ERROR(own->Load(parameters));
    network.passes = std::make_unique<nn::Inference>(std::move(own));
  }
  return sampler;
}

absl::StatusOr<CascadeSampler::Conditions> CascadeSampler::BaseConditions(
    const std::vector<std::string>& prompts, bool guided,
    const std::shared_ptr<Device>& device) const {
  const ClassLabels* labels = cascade_->labels();
  if (labels == nullptr) return Conditions();
  // WithGuidance needs the unconditional half first.
  std::vector<int32_t> rows;
  if (guided) rows.assign(prompts.size(), labels->no_class());
  for (const std::string& prompt : prompts) {
    DPIPE_ASSIGN_OR_RETURN(rows.emplace_back(), labels->LabelOf(prompt));
  }
  return Conditions{
      {"labels", Tensor::FromHost<int32_t>(device, {static_cast<int64_t>(rows.size())}, rows)}};
}

absl::StatusOr<Tensor> CascadeSampler::SampleWith(int part, const Conditions& conditions,
                                                  float guidance, int count, int first,
                                                  const DrawOptions& options,
                                                  const std::shared_ptr<Device>& device,
                                                  const std::function<void()>& on_step) const {
  const Network& network = networks_[part];
  const PixelUNetOptions& shape = cascade_->part(part).options;
  // With self-conditioning: the network's output at the previous step, initially zeros.
  Tensor estimate;
  diffusion::PredictFn predict = [&](const Tensor& x,
                                     const Tensor& timesteps) -> absl::StatusOr<Tensor> {
    if (options.should_stop && options.should_stop()) {
      return absl::CancelledError("drawing was stopped");
    }
    nn::ValueMap values = {{network.program->InputNamed("noisy_pixels"), x},
                           {network.program->InputNamed("timesteps"), timesteps}};
    for (const auto& [name, tensor] : conditions) {
      values[network.program->InputNamed(name)] = tensor;
    }
    if (shape.self_conditioning) {
      if (!estimate.defined()) estimate = Tensor::Zeros(x.device(), x.shape(), DType::kF32);
      values[network.program->InputNamed("estimate")] =
          compute_dtype_ == DType::kF32 ? estimate : estimate.To(compute_dtype_);
    }
    nn::RunOptions run;
    run.compute_dtype = compute_dtype_;
    DPIPE_RETURN_IF_ERROR(network.passes->Forward(*network.program, network.program->all_layers(),
                                                  device, run, &values));
    estimate = values.at(network.program->outputs()[0]);
    return estimate;
  };
  predict = diffusion::WithGuidance(predict, guidance);
  DrawOptions own = options;
  own.seed += static_cast<uint64_t>(part) * 0x9E3779B97F4A7C15u;
  const Tensor noise = DrawnNoise(kNoiseStreams + part, options, first, count,
                                  static_cast<int>(shape.height), HostDeviceFor(device));
  return cascade_->part(part).objective->Draw(own, first, noise, predict, on_step);
}

absl::Status CascadeSampler::DrawBatch(const std::vector<std::string>& prompts, int first,
                                       const DrawOptions& options,
                                       const std::shared_ptr<Device>& device,
                                       const std::function<void()>& on_step, Image* images) const {
  const int count = static_cast<int>(prompts.size());
  const std::shared_ptr<Device> host = HostDeviceFor(device);
  const bool guided = diffusion::IsGuided(options.guidance) && cascade_->labels() != nullptr &&
                      cascade_->labels()->has_no_class();
  DPIPE_ASSIGN_OR_RETURN(const Conditions base, BaseConditions(prompts, guided, host));
  DPIPE_ASSIGN_OR_RETURN(Tensor small, SampleWith(kBase, base, guided ? options.guidance : 1.0f,
                                                  count, first, options, device, on_step));
  DPIPE_RETURN_IF_ERROR(CheckPictures(small, prompts));
  for (float& v : small.span<float>()) v = std::clamp(v, -1.0f, 1.0f);
  const Tensor levels = Filled(count, cascade_->noise_level(), host);
  const Tensor noise =
      DrawnNoise(kNoiseStreams + 2, options, first, count, cascade_->base_size(), host);
  DPIPE_ASSIGN_OR_RETURN(const Tensor noised, diffusion::AddNoise(cascade_->low_schedule(), small,
                                                                  noise, levels, DType::kF32));
  DPIPE_ASSIGN_OR_RETURN(
      const Tensor large,
      SampleWith(kSuperResolution, {{"low_resolution", noised}, {"noise_levels", levels}}, 1.0f,
                 count, first, options, device, on_step));
  DPIPE_RETURN_IF_ERROR(CheckPictures(large, prompts));
  const int64_t per_image = large.num_elements() / count;
  for (int i = 0; i < count; ++i) {
    images[i] = ToImage(large.data<float>() + i * per_image, cascade_->image_size());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Image>> CascadeSampler::Draw(
    const std::vector<std::string>& prompts, const DrawOptions& options,
    const std::vector<DeviceWorker*>& workers,
    const std::function<void(double)>& on_progress) const {
  DPIPE_RETURN_IF_ERROR(cascade_->CheckDraw(prompts, options));
  int64_t device_bytes = 0;
  for (const Network& network : networks_) {
    // Guidance doubles the batch.
    device_bytes += nn::InferenceBytes(*network.program, network.program->all_layers(),
                                       2 * options.batch, compute_dtype_);
  }
  DPIPE_ASSIGN_OR_RETURN(const PassWorkers chosen, PassWorkers::Choose(workers, device_bytes));
  std::vector<Image> images(prompts.size());
  const int total = static_cast<int>(prompts.size());
  const int num_batches = (total + options.batch - 1) / options.batch;
  double total_calls = 0;
  for (int i : {kBase, kSuperResolution}) {
    total_calls += 1.0 * num_batches * cascade_->part(i).objective->NumModelCalls(options);
  }
  std::atomic<int> next{0}, steps_done{0};
  const auto on_step = [&] {
    const int done = ++steps_done;
    if (on_progress) on_progress(done / total_calls);
  };
  DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(chosen.workers(), [&](int worker) -> absl::Status {
    for (int batch = next++; batch < num_batches; batch = next++) {
      const int first = batch * options.batch;
      const int last = std::min(total, first + options.batch);
      DPIPE_RETURN_IF_ERROR(DrawBatch({prompts.begin() + first, prompts.begin() + last}, first,
                                      options, chosen.workers()[worker]->device(), on_step,
                                      &images[first]));
    }
    return absl::OkStatus();
  })));
  return images;
}

}  // namespace dpipe::models
