// Everything that training a model on this machine needs, from a few options: what benchmarks and
// the trainer have in common.
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
#include "core/runtime/pass_graphs.h"
#include "core/train/job.h"
#include "data/loader.h"
#include "data/patches.h"
#include "models/trainable/model_kind.h"
#include "models/trainable/trainable_model.h"
#include "models/trainable/training_data.h"

namespace dpipe::models {

struct TrainingSetupOptions {
  std::string model_folder;  // diffusers layout
  LoadModelOptions model;
  TrainingDataOptions data;
  // Above 1: steps differ in size. Each picture is trained on at the nearest of sizes of about the
  // model's area, whose longer side is at most so many times the shorter; all pictures of a step
  // have one size.
  double max_aspect = 1;
  // Above 0: Patch Diffusion. This share of the steps trains on random patches of pictures instead
  // of whole ones (data/patches.h), and the backbone takes coordinates. Not with max_aspect.
  double patch_share = 0;
  std::string backend = "cpu";  // see DeviceRequest
  int num_devices = 0;          // 0: one a core, or every GPU
  int virtual_devices = 0;      // of one GPU
  std::string engines;          // of GPUs, these three
  bool time_engines = false;
  bool deterministic = true;
  PassGraphsOptions graphs;  // of GPUs; on others no more than a note says that there are none
  // That train together, all on CPUs or all on GPUs; outlives the setup. Each has num_devices, 0
  // being one then, and none has virtual ones. Null: this one alone.
  ProcessGroup* processes = nullptr;
  absl::Duration deadline = absl::Seconds(120);  // of any one wait between ranks
  int global_batch = 32;
  DType compute_dtype = DType::kF32;
  // Frozen components run on this many samples at a time; 0: DefaultFrozenQuantum. A part of the
  // numerics: results depend on it (to rounding), never on where the work runs.
  int frozen_quantum = 0;
  uint64_t seed = 0;
  double caption_drop = 0.1;
  bool mean_latents = false;  // see InputsOptions
  double offset_noise = 0;
  diffusion::TimestepSampling timesteps = diffusion::TimestepSampling::kUniform;
  int prefetch_threads = 1;  // that decode pictures of the next steps
  std::string cache_folder;  // see CacheRequest
  // Of a model whose backbones take their own estimate: how often a step computes one first.
  double self_conditioning_probability = 0.5;
  // The backbones' weights to begin with.
  enum class Weights { kRandom, kFolder, kFolderIfAny };
  Weights weights = Weights::kRandom;
  // Where they come from instead, for DescribeWeights: of a run that goes on, a checkpoint, which
  // whoever uses the setup reads. Empty: `weights` are what is trained.
  std::string weights_from;
  // False, to try a setup out: nothing is added to the quarantine, to the file of engines, or to
  // the cache's folder, which is not read either.
  bool writes_files = true;
  AdamWOptions optimizer;
};

class TrainingSetup {
 public:
  // InvalidArgument and NotFound name the folder, file or option, and both values.
  static absl::StatusOr<std::unique_ptr<TrainingSetup>> Create(const TrainingSetupOptions& options);

  const TrainableModel& model() const { return *model_; }
  const TrainingJob& job() const { return job_; }
  DataLoader& loader() { return *data_.training; }
  DataLoader* held_out() { return data_.held_out.get(); }  // null where nothing is
  const std::vector<DeviceWorker*>& workers() const { return job_.workers; }
  // What training draws. Evaluation differs in its timesteps, and drops no captions.
  InputsOptions inputs_options() const;
  // A few lines: the model, its weights, the data set (see DescribeSamples), the machine.
  std::string Describe() const;
  // One line: where each component's weights come from.
  std::string DescribeWeights() const;

  // A line for each thing that the devices have computed in another way than they were made for,
  // since the last call.
  std::vector<std::string> TakeDeviceNotes();

  // The backbones' parameters to start from are no longer needed by any session: frees those of
  // trainable layers, which sessions have copied.
  void ReleaseInitialParameters();

  // Computes the frozen outputs for the samples of `num_steps` steps, the first of which is that at
  // which the order of the data begins. From then on job()
  // has inputs for plans with cached frozen outputs, too, where the model is cached as a whole.
  absl::StatusOr<const CachedInputs*> BuildCache(
      int64_t num_steps, const std::function<void(double)>& on_progress = nullptr);
  // Whether some frozen components are not cached: then only CachedJob() reads the cache.
  bool cache_is_partial() const { return cached_inputs_.make_rest != nullptr; }
  // job(), or, of a cache that is partial, that of the rest of the model (CachedInputs::make_rest),
  // whose plans are made and run as without a cache. After BuildCache.
  TrainingJob CachedJob() const;

 private:
  TrainingSetup() = default;
  // The sizes that steps may have; none where all have the model's.
  absl::StatusOr<std::vector<ImageSize>> Buckets() const;
  // What steps may have of each picture; none where all have all of it.
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
  std::string device_note_;  // why not a GPU
  std::set<std::string> told_notes_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  CachedInputs cached_inputs_;
  std::vector<ImageSize> sizes_;  // that steps have, as job_'s models: the first is planned for
  std::vector<std::unique_ptr<nn::Model>> sized_models_;  // at other sizes than the model's own
  std::vector<std::unique_ptr<nn::Model>> rest_models_;   // by size, of a cache that is partial
  TrainingJob job_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_TRAINING_SETUP_H_
