// Builds everything that training a model on this machine needs, from a few options; shared by
// benchmarks and the trainer.
#ifndef DPIPE_MODELS_TRAINABLE_TRAINING_SETUP_H_
#define DPIPE_MODELS_TRAINABLE_TRAINING_SETUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/runtime/interpreter/pass_graphs.h"
#include "core/train/job.h"
#include "data/images/patches.h"
#include "data/loader.h"
#include "models/trainable/trainable_model.h"
#include "models/trainable/training_data.h"

namespace dpipe::models {

struct TrainingSetupOptions {
  std::string model_folder;  // diffusers layout
  LoadModelOptions model;
  TrainingDataOptions data;
  // Maximum aspect ratio (longer side to shorter side). Above 1, steps differ in size: each picture
  // is trained on at the nearest of several sizes of about the model's area. All pictures of a step
  // have one size.
  double max_aspect = 1;
  // Above 0, this share of the steps trains on random patches of pictures instead of whole ones
  // (Patch Diffusion; data/images/patches.h), and the backbone takes coordinates. Not with
  // max_aspect.
  double patch_share = 0;
  std::string backend = "cpu";  // see DeviceRequest
  int num_devices = 0;          // 0 means one per core, or every GPU
  int virtual_devices = 0;      // of one GPU
  std::string engines;          // this and the next two fields are for GPUs
  bool time_engines = false;
  bool deterministic = true;
  PassGraphsOptions graphs;  // for GPUs; on other devices a note says that there are none
  // Processes that train together, all on CPUs or all on GPUs; must outlive the setup. Each has
  // num_devices (0 then means one) and no virtual devices. Null means this process alone.
  ProcessGroup* processes = nullptr;
  absl::Duration deadline = absl::Seconds(120);  // of every single wait between ranks
  int global_batch = 32;
  DType compute_dtype = DType::kF32;
  // Number of samples that frozen components process at a time; 0 selects DefaultFrozenQuantum. It
  // affects results (to rounding), but the placement of the work does not.
  int frozen_quantum = 0;
  uint64_t seed = 0;
  double caption_drop = 0.1;
  bool mean_latents = false;  // see InputsOptions
  double offset_noise = 0;
  diffusion::TimestepSampling timesteps = diffusion::TimestepSampling::kUniform;
  int prefetch_threads = 1;  // decode pictures of the next steps
  std::string cache_folder;  // see CacheRequest
  // For backbones that take their own estimate: probability that a step computes one first.
  double self_conditioning_probability = 0.5;
  // Initial weights of the backbones.
  enum class Weights { kRandom, kFolder, kFolderIfAny };
  Weights weights = Weights::kRandom;
  // Origin of the weights for DescribeWeights if it differs from `weights`, such as the checkpoint
  // of a resumed run, which the caller reads. Empty if training starts from `weights`.
  std::string weights_from;
  // Called repeatedly, by several threads, while BuildCache and ProfileJob work. Once it returns
  // true, they return Cancelled. Not with `processes`, which wait for each other.
  std::function<bool()> should_stop;
  // If false, for a dry run, nothing is added to the quarantine, to the file of engines, or to the
  // cache's folder, which is not read either.
  bool writes_files = true;
  AdamWOptions optimizer;
};

class TrainingSetup {
 public:
  // Returns InvalidArgument or NotFound with the folder, file or option, and both values.
  static absl::StatusOr<std::unique_ptr<TrainingSetup>> Create(const TrainingSetupOptions& options);

  const TrainableModel& model() const { return *model_; }
  const TrainingJob& job() const { return job_; }
  DataLoader& loader() { return *data_.training; }
  DataLoader* held_out() { return data_.held_out.get(); }  // null if nothing is held out
  const std::vector<DeviceWorker*>& workers() const { return job_.workers; }
  // Returns the draws of training. Evaluation uses other timesteps and drops no captions.
  InputsOptions inputs_options() const;
  // Returns a few lines: the model, its weights, the data set (see DescribeSamples), the machine,
  // the devices and why these.
  std::string Describe() const;
  // Returns one line with the origin of each component's weights.
  std::string DescribeWeights() const;

  // Returns one line per fallback that the devices have used since the last call, without
  // duplicates.
  std::vector<std::string> TakeDeviceNotes();

  // Computes the frozen outputs for the samples of `num_steps` steps, from the step at which the
  // order of the data begins. Afterwards job() also has inputs for plans with cached frozen
  // outputs, if the model is cached as a whole.
  absl::StatusOr<const CachedInputs*> BuildCache(
      int64_t num_steps, const std::function<void(double)>& on_progress = nullptr);
  // True if some frozen components are not cached. Only CachedJob() reads the cache then.
  bool cache_is_partial() const { return cached_inputs_.make_rest != nullptr; }
  // Returns job() or, if the cache is partial, the job of the rest of the model
  // (CachedInputs::make_rest), whose plans are made and run as without a cache. Call it after
  // BuildCache.
  TrainingJob CachedJob() const;

 private:
  TrainingSetup() = default;
  // Returns the sizes of steps; empty if all steps have the model's size.
  absl::StatusOr<std::vector<ImageSize>> Buckets() const;
  // Returns the sizes of patches; empty if all steps have whole pictures.
  absl::StatusOr<std::vector<PatchSize>> Patches() const;
  absl::Status StartDevices();
  int num_processes() const;
  absl::Status FillJob();
  absl::Status ChooseModels();
  TrainableModel::Start start() const;

  TrainingSetupOptions options_;
  std::unique_ptr<TrainableModel> model_;
  TrainingData data_;
  std::unique_ptr<InputProvider> inputs_;
  std::string device_line_;  // the devices, and why these
  std::set<std::string> reported_notes_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  CachedInputs cached_inputs_;
  std::vector<ImageSize> sizes_;  // of steps, as job_'s models; the plan is for the first
  std::vector<std::unique_ptr<nn::Model>> sized_models_;  // at sizes other than the model's own
  std::vector<std::unique_ptr<nn::Model>> rest_models_;   // by size, if the cache is partial
  TrainingJob job_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_TRAINING_SETUP_H_
