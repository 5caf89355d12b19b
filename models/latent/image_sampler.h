// Draws images from prompts.
#ifndef DPIPE_MODELS_LATENT_IMAGE_SAMPLER_H_
#define DPIPE_MODELS_LATENT_IMAGE_SAMPLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/inference.h"
#include "core/tensor/device_worker.h"
#include "data/images/image.h"
#include "models/diffusion/draw_options.h"
#include "models/stable_diffusion/stable_diffusion.h"

namespace dpipe::models {

class ImageSampler {
 public:
  // Copies `unet`, the parameters by name (fp32).
  static absl::StatusOr<std::unique_ptr<ImageSampler>> Create(
      const StableDiffusion* model, const std::map<std::string, Tensor>& unet, DType compute_dtype);
  // Uses another network instead of the U-Net. Its inputs and output are those of
  // BuildUNetForInference; it may also take a "condition" picture fp32 [size, size, 3] in [0, 1].
  static absl::StatusOr<std::unique_ptr<ImageSampler>> Create(
      const StableDiffusion* model, nn::Program denoiser,
      const std::map<std::string, Tensor>& parameters, DType compute_dtype);

  // Returns one image per prompt; image i depends on (seed, i, prompt) alone. The work is spread
  // over the workers, or over the CPU's cores if GPUs have too little memory left. Calls
  // `on_progress` with the share done, on any worker's thread.
  absl::StatusOr<std::vector<Image>> Draw(
      const std::vector<std::string>& prompts, const DrawOptions& options,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress = nullptr) const;
  // The same with one condition picture per prompt, a square of image_size() pixels. Returns
  // InvalidArgument if their number or size is wrong, or if the network takes none.
  absl::StatusOr<std::vector<Image>> DrawWithConditions(
      const std::vector<std::string>& prompts, const std::vector<Image>& conditions,
      const DrawOptions& options, const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress = nullptr) const;

  // Returns images encoded and decoded by the VAE, the upper bound of the quality of drawn ones.
  // Returns InvalidArgument unless they are squares of image_size() pixels.
  absl::StatusOr<std::vector<Image>> Reconstruct(const std::vector<Image>& images,
                                                 const std::vector<DeviceWorker*>& workers) const;

 private:
  ImageSampler() = default;
  // Returns the memory that a device needs for passes of `batch` samples.
  int64_t DeviceBytes(int batch) const;
  // Returns the context of each prompt, in order. Equal prompts are encoded once.
  absl::StatusOr<Tensor> Contexts(const std::vector<std::string>& prompts,
                                  const std::shared_ptr<Device>& device) const;
  struct Batch {
    std::vector<std::string> prompts;
    std::vector<Image> conditions;  // empty, or one per prompt
    int first = 0;
  };
  bool wants_conditions() const;
  absl::Status CheckConditions(size_t num_prompts, const std::vector<Image>& conditions) const;
  absl::Status DrawBatch(const Batch& batch, const DrawOptions& options,
                         const std::shared_ptr<Device>& device,
                         const std::function<void()>& on_step, Image* images) const;
  absl::StatusOr<Image> ReconstructOne(const Image& image,
                                       const std::shared_ptr<Device>& device) const;

  const StableDiffusion* model_ = nullptr;
  DType compute_dtype_ = DType::kF32;
  std::unique_ptr<nn::Program> unet_program_, decoder_program_;
  std::unique_ptr<nn::Inference> vae_encoder_, text_encoder_, unet_, decoder_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_IMAGE_SAMPLER_H_
