// Everything that training Stable Diffusion on this machine needs, from a few options: what
// benchmarks and the trainer have in common.
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_TRAINING_SETUP_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_TRAINING_SETUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/train/job.h"
#include "data/loader.h"
#include "models/stable_diffusion/frozen_cache.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/stable_diffusion/training_inputs.h"

namespace dpipe::models {

struct TrainingSetupOptions {
  std::string model_folder;  // diffusers layout
  std::string data_folder;   // images with captions; see FolderDataset
  StableDiffusionOptions model;
  int num_devices = 0;  // 0: one a core
  int global_batch = 32;
  DType compute_dtype = DType::kF32;
  // Frozen components run on this many samples at a time; 0: 4, or as many as divide a device's
  // share of the batch. A part of the numerics: results depend on it (to rounding), never on where
  // the work runs.
  int frozen_quantum = 0;
  uint64_t seed = 0;
  double caption_drop = 0.1;
  bool mean_latents = false;  // see TrainingInputsOptions
  bool random_flip = false;
  bool random_crop = false;
  bool init_random = true;  // the U-Net's weights; else the folder's
  AdamWOptions optimizer;
};

class TrainingSetup {
 public:
  // InvalidArgument and NotFound name the folder, file or option, and both values.
  static absl::StatusOr<std::unique_ptr<TrainingSetup>> Create(const TrainingSetupOptions& options);

  const StableDiffusion& model() const { return *model_; }
  const TrainingJob& job() const { return job_; }
  DataLoader& loader() { return *loader_; }
  const std::vector<DeviceWorker*>& workers() const { return job_.workers; }
  // A few lines: the model, the data set, the machine.
  std::string Describe() const;

  // Computes the frozen outputs for the samples of the first `num_steps` steps, so that plans with
  // cached frozen outputs can be run.
  absl::StatusOr<const FrozenCache*> BuildCache(
      int64_t num_steps, const std::function<void(double)>& on_progress = nullptr);

 private:
  TrainingSetup() = default;

  TrainingSetupOptions options_;
  std::unique_ptr<StableDiffusion> model_;
  std::unique_ptr<DataLoader> loader_;
  std::unique_ptr<TrainingInputs> inputs_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  std::unique_ptr<FrozenCache> cache_;
  TrainingJob job_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_TRAINING_SETUP_H_
