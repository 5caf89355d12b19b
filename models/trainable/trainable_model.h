// A trainable diffusion model of any kind: the part of Stable Diffusion, ControlNet or a cascade
// that trainers, benchmarks and checkpoints use.
#ifndef DPIPE_MODELS_TRAINABLE_TRAINABLE_MODEL_H_
#define DPIPE_MODELS_TRAINABLE_TRAINABLE_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/model.h"
#include "core/nn/parameter_source.h"
#include "core/nn/parameters.h"
#include "core/runtime/input_provider.h"
#include "core/tensor/device_worker.h"
#include "data/images/image.h"
#include "data/loader.h"
#include "models/diffusion/draw_options.h"
#include "models/diffusion/draws.h"
#include "models/folder/load_options.h"
#include "models/tokenizer/tokenizer.h"
#include "models/weights/weights.h"

namespace dpipe::models {

// Random draws of training.
struct InputsOptions {
  uint64_t seed = 0;
  double caption_drop = 0.1;  // share of captions replaced by the empty caption
  bool mean_latents = false;  // use the mean of the VAE's posterior as latents
  // Standard deviation of offset noise: one normal number per sample and channel, added to the
  // noise of all its pixels. The model then learns mean brightness too. 0 adds none.
  double offset_noise = 0;
  DType compute_dtype = DType::kF32;
  diffusion::TimestepSampling timesteps = diffusion::TimestepSampling::kUniform;
  // If empty, timesteps are drawn according to `timesteps`. Otherwise sample i of a step has the
  // timestep at quantile timestep_quantiles[i mod size], in [0, 1). Evaluation uses this to get
  // comparable losses.
  std::vector<double> timestep_quantiles;
};

struct DrawRequest {
  std::vector<std::string> prompts;
  std::vector<Image> conditions;  // one per prompt if wants_conditions(), else empty
  DrawOptions options;
  DType compute_dtype = DType::kF32;
};

// Selects the samples whose frozen outputs to precompute: those of num_steps steps of the loader.
struct CacheRequest {
  DataLoader* loader = nullptr;
  int64_t first_step = 0;
  int64_t num_steps = 0;
  int64_t profiled_step = 0;  // the samples of this step are cached too
  int frozen_quantum = 1;     // samples computed together, as without a cache
  // Folder that keeps them for later runs and has those of earlier runs; empty keeps them in
  // memory.
  std::string cache_folder;
  // Called repeatedly, by several threads. Once it returns true, MakeCachedInputs returns
  // Cancelled.
  std::function<bool()> should_stop;
};

// Inputs that include the outputs of frozen components, for plans with cached frozen outputs.
struct CachedInputs {
  std::unique_ptr<InputProvider> provider;
  // Set if some frozen components cannot be cached, because they read draws of the current step.
  // Makes the rest of the model for pictures of a size: without the cached components, whose
  // outputs become external inputs. Plans of it contain the remaining frozen work. Null if all
  // components are cached, and plans are of the whole model.
  std::function<absl::StatusOr<nn::Model>(ImageSize)> make_rest;
  // Frozen parameters of make_rest's model, by component.
  std::vector<const nn::ParameterSet*> rest_parameters;
  int num_images = 0;
  int num_captions = 0;
  int num_computed = 0;  // of both; the others were in the cache folder
  // Damaged records in the folder, which are not used; only records that were read are counted.
  int64_t num_damaged = 0;
  int64_t size_bytes = 0;
};

// Immutable once loaded, and thread-safe.
class TrainableModel {
 public:
  virtual ~TrainableModel() = default;

  virtual const nn::Model& model() const = 0;
  // By component, null for backbones. A backbone's own frozen layers are among its parameters. Only
  // layers that LoadFrozen has read have values.
  virtual const std::vector<const nn::ParameterSet*>& frozen_parameters() const = 0;
  // Reads some layers of a frozen component, unless they have been read. Thread-safe.
  virtual absl::Status LoadFrozen(int component, LayerRange layers) const {
    return absl::OkStatus();
  }
  // Reads all layers of all frozen components.
  absl::Status LoadAllFrozen() const;
  // Returns the side of the loader's images, in pixels.
  virtual int image_size() const = 0;
  // Returns the number of which both sides of pictures must be multiples, if steps may have other
  // sizes. Returns 0 if all steps have image_size().
  virtual int size_multiple() const { return 0; }
  // Builds model() for pictures of another size. It has and trains the same parameters
  // (nn/model.h). Returns Unimplemented if the model has one size only, and
  // InvalidArgument if a side is not a multiple of size_multiple().
  virtual absl::StatusOr<nn::Model> MakeModel(ImageSize size) const {
    return absl::UnimplementedError("this kind of model is trained at one size only");
  }
  // True if its backbone takes the position of a sample in its picture, so that samples can be
  // patches. Its size_multiple() is then not 0.
  virtual bool takes_coordinates() const { return false; }
  // Returns the tokenizer that cuts captions; null if the model reads no text.
  virtual const Tokenizer* tokenizer() const { return nullptr; }
  // True if each sample also needs a condition picture.
  virtual bool wants_conditions() const { return false; }
  // Returns the default share of captions to drop.
  virtual double default_caption_drop() const { return 0.1; }
  // Returns a line such as "tiny_sd, 2.41 M trainable parameters in 48 layers, 64 x 64 pixels".
  virtual std::string Describe() const = 0;

  enum class Start { kFolder, kRandom };
  // Returns sentences for the user about the interpretation of the folder's configuration, weights
  // and adapters.
  virtual std::vector<std::string> notes(Start start) const { return {}; }
  // Returns the source of all backbones' parameters: the folder's, or random ones that depend only
  // on the seed and each parameter's name. Returns NotFound if the folder has none. This object
  // must outlive the result.
  virtual absl::StatusOr<nn::ParameterSourcePtr> InitialSource(Start start,
                                                               uint64_t seed) const = 0;
  // Reads all of it, by name.
  absl::StatusOr<NamedTensors> InitialParameters(Start start, uint64_t seed) const;
  // True if the folder has weights of any backbone, valid or not.
  virtual bool has_weights() const = 0;
  // Returns the origin of InitialParameters' weights, for the user: "unet from FOLDER/unet".
  virtual std::string DescribeStart(Start start, uint64_t seed) const = 0;
  // Returns the origin of the frozen components' weights: "vae and text_encoder from FOLDER".
  // Returns "" if there are none.
  virtual std::string DescribeFrozen() const = 0;

  // The loader and this object must outlive the result.
  virtual absl::StatusOr<std::unique_ptr<InputProvider>> MakeInputs(
      DataLoader* loader, const InputsOptions& options) const = 0;

  // Computes the frozen outputs, in parallel on the workers, and returns inputs like those of
  // MakeInputs that include them. Returns Unimplemented if the model has no such cache, and
  // FailedPrecondition if the loader crops or flips at random or loads patches.
  virtual absl::StatusOr<CachedInputs> MakeCachedInputs(
      const CacheRequest& request, const InputsOptions& options,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress) const {
    return absl::UnimplementedError("this kind of model has no cache of frozen outputs");
  }

  // Writes a complete `folder` in diffusers layout, which Load reads, and so does diffusers if it
  // has such a pipeline. Reads the backbones' parameters one after another, and only those that it
  // writes. Returns InvalidArgument if this model was loaded from that folder.
  virtual absl::Status Save(const std::string& folder, const nn::ParameterSource& parameters,
                            StoredFormat format) const = 0;
  absl::Status Save(const std::string& folder, const NamedTensors& parameters,
                    StoredFormat format) const {
    return Save(folder, *nn::SourceOf(parameters), format);
  }

  // Returns InvalidArgument if Draw would reject these options or one of these prompts for all
  // parameters and conditions.
  virtual absl::Status CheckDraw(const std::vector<std::string>& prompts,
                                 const DrawOptions& options) const = 0;

  // Returns a sentence for the user about how these options draw, or "". It is the note of
  // ChooseSampler (models/diffusion/samplers/samplers.h).
  virtual std::string SamplerNote(const DrawOptions& options) const = 0;

  // Returns one image per prompt; image i depends on (seed, i, prompt, condition) alone.
  virtual absl::StatusOr<std::vector<Image>> Draw(
      const NamedTensors& parameters, const DrawRequest& request,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress) const = 0;
};

// A kind of model: how it is recognised by its folder, and loaded. Each kind describes itself in
// its own package, and load.cc lists them.
struct ModelKind {
  std::string name;  // "stable_diffusion"
  // Values of _class_name in model_index.json from which it is loaded. A folder of the first class
  // is of this kind unless the user requests another.
  std::vector<std::string> classes;
  // True if its models take a condition picture with each sample. Needed before a model is loaded,
  // to choose the data.
  bool wants_conditions = false;
  bool is_latent = false;       // its models are TrainableLatentModels (models/latent/trainable.h)
  bool takes_adapters = false;  // low-rank adapters can be trained and drawn with
  // Returns an error if the folder's model can be drawn with, but not trained. Null: it can.
  std::function<absl::Status(const std::string& folder)> check_training;
  std::function<absl::StatusOr<std::unique_ptr<TrainableModel>>(const std::string& folder,
                                                                const LoadModelOptions& options)>
      load;
};

// Returns InvalidArgument with the path of the config.json and the value if `dropout` is not 0.
// Only sampling may ignore dropout; training may not.
absl::Status CheckNoDropout(const std::string& config_path, double dropout);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_TRAINABLE_MODEL_H_
