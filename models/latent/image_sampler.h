// Draws images from prompts with a latent pipeline.
#ifndef DPIPE_MODELS_LATENT_IMAGE_SAMPLER_H_
#define DPIPE_MODELS_LATENT_IMAGE_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/inference.h"
#include "core/tensor/device_worker.h"
#include "data/images/image.h"
#include "models/diffusion/draw_options.h"
#include "models/latent/latent_pipeline.h"

namespace dpipe::models {

class ImageSampler {
 public:
  // Copies `parameters`, those of the denoiser's drawing program by name (fp32).
  static absl::StatusOr<std::unique_ptr<ImageSampler>> Create(const LatentPipeline* pipeline,
                                                              const NamedTensors& parameters,
                                                              DType compute_dtype);

  // Returns one image per prompt; image i depends on (seed, i, prompt) alone. The work is spread
  // over the workers, or over the CPU's cores if GPUs have too little memory left. Calls
  // `on_progress` with the share done, on any worker's thread.
  absl::StatusOr<std::vector<Image>> Draw(
      const std::vector<std::string>& prompts, const DrawOptions& options,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress = nullptr) const;
  // The same with one condition picture per prompt, a square of image_size() pixels. Returns
  // InvalidArgument if their number or size is wrong, or if the denoiser takes none.
  absl::StatusOr<std::vector<Image>> DrawWithConditions(
      const std::vector<std::string>& prompts, const std::vector<Image>& conditions,
      const DrawOptions& options, const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress = nullptr) const;

  // Returns the latents to which `prompts` are drawn on `device` from `noise` [prompts, height,
  // width, channels], fp32: a part of Draw, for comparisons with other programs.
  absl::StatusOr<Tensor> DrawLatents(const std::vector<std::string>& prompts,
                                     const DrawOptions& options, const Tensor& noise,
                                     const std::shared_ptr<Device>& device) const;

  // Returns images encoded and decoded by the VAE, the upper bound of the quality of drawn ones.
  // Returns InvalidArgument unless they are squares of image_size() pixels.
  absl::StatusOr<std::vector<Image>> Reconstruct(const std::vector<Image>& images,
                                                 const std::vector<DeviceWorker*>& workers) const;

 private:
  // A program with its parameters.
  struct Network {
    const nn::Program* program = nullptr;
    std::unique_ptr<nn::Program> own;  // null if the pipeline owns the program
    std::unique_ptr<nn::Inference> passes;
  };
  struct Batch {
    std::vector<std::string> prompts;
    std::vector<Image> conditions;  // empty, or one per prompt
    int first = 0;
  };

  ImageSampler() = default;
  static absl::StatusOr<Network> LoadNetwork(nn::Program program, const NamedTensors& parameters);
  absl::StatusOr<Network> FrozenNetwork(int component) const;
  // Runs one forward pass of a whole program on `device` and returns its outputs by name. All
  // tensors are on the host.
  absl::StatusOr<NamedTensors> Run(const Network& network, const std::shared_ptr<Device>& device,
                                   const NamedTensors& inputs) const;
  // Returns the memory that a device needs for passes of `batch` samples.
  int64_t DeviceBytes(int batch) const;
  // Returns the denoiser's embeddings of a prompt, by input.
  absl::StatusOr<NamedTensors> Embed(const std::string& prompt,
                                     const std::shared_ptr<Device>& device) const;
  // Returns those of several prompts, in order. Equal prompts are embedded once.
  absl::StatusOr<NamedTensors> EmbedAll(const std::vector<std::string>& prompts,
                                        const std::shared_ptr<Device>& device) const;
  // Scale of classifier-free guidance.
  float GuidanceOf(const DrawOptions& options) const;
  absl::Status CheckConditions(size_t num_prompts, const std::vector<Image>& conditions) const;
  // Returns the denoiser's inputs that are the same at each step. Of a guided batch the
  // unconditional half comes first.
  absl::StatusOr<NamedTensors> FixedInputs(const Batch& batch, const DrawOptions& options,
                                           const std::shared_ptr<Device>& device) const;
  absl::StatusOr<Tensor> LatentsOf(const Batch& batch, const DrawOptions& options,
                                   const Tensor& noise, const std::shared_ptr<Device>& device,
                                   const std::function<void()>& on_step) const;
  absl::Status DrawBatch(const Batch& batch, const DrawOptions& options,
                         const std::shared_ptr<Device>& device,
                         const std::function<void()>& on_step, Image* images) const;
  absl::StatusOr<Image> ReconstructOne(const Image& image,
                                       const std::shared_ptr<Device>& device) const;

  const LatentPipeline* pipeline_ = nullptr;
  DType compute_dtype_ = DType::kF32;
  Network vae_encoder_, denoiser_, decoder_;
  std::vector<Network> text_encoders_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_IMAGE_SAMPLER_H_
