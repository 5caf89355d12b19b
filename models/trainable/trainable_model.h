// A diffusion model that can be trained, whatever its kind: what a trainer, a benchmark and a
// checkpoint need of Stable Diffusion, ControlNet or a cascade, and nothing else.
#ifndef DPIPE_MODELS_TRAINABLE_TRAINABLE_MODEL_H_
#define DPIPE_MODELS_TRAINABLE_TRAINABLE_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/model.h"
#include "core/nn/parameters.h"
#include "core/runtime/input_provider.h"
#include "core/tensor/device_worker.h"
#include "data/image.h"
#include "data/loader.h"
#include "models/diffusion/draw_options.h"
#include "models/diffusion/timestep_sampling.h"
#include "models/tokenizer/clip_tokenizer.h"
#include "models/weights/weights.h"

namespace dpipe::models {

// What training draws at random, and how.
struct InputsOptions {
  uint64_t seed = 0;
  double caption_drop = 0.1;  // share of captions replaced by the empty one
  bool mean_latents = false;  // the VAE's latents are its posterior's mean
  // Noise gets this times a normal number that all pixels of a sample's channel share, so that mean
  // brightness is learnt too; 0: none.
  double offset_noise = 0;
  DType compute_dtype = DType::kF32;
  diffusion::TimestepSampling timesteps = diffusion::TimestepSampling::kUniform;
  // Empty: timesteps are drawn as `timesteps` says. Else sample i of a step has the timestep at
  // quantile timestep_quantiles[i mod size], in [0, 1): for evaluation, whose losses can then be
  // compared.
  std::vector<double> timestep_quantiles;
};

struct DrawRequest {
  std::vector<std::string> prompts;
  std::vector<Image> conditions;  // one a prompt where wants_conditions(), else empty
  DrawOptions options;
  DType compute_dtype = DType::kF32;
};

// Which samples' frozen outputs to compute in advance: those of num_steps steps of the loader.
struct CacheRequest {
  DataLoader* loader = nullptr;
  int64_t first_step = 0;
  int64_t num_steps = 0;
  int64_t profiled_step = 0;  // the samples of this one, too
  int frozen_quantum = 1;     // samples computed together: as without a cache
  // Where they are kept for later runs, and found from earlier ones; empty: in memory.
  std::string cache_folder;
};

// Inputs that also give what frozen components feed, for plans with cached frozen outputs.
struct CachedInputs {
  std::unique_ptr<InputProvider> provider;
  // Where not all frozen components can be cached, because one reads what each step draws anew:
  // makes the model without those that are, whose outputs the others read as external inputs, for
  // pictures of a size; and its frozen parameters, by component. A plan of it has the frozen work
  // that is left. Null: all are cached, and plans are of the whole model.
  std::function<absl::StatusOr<nn::Model>(ImageSize)> make_rest;
  std::vector<const nn::ParameterSet*> rest_parameters;
  int num_images = 0;
  int num_captions = 0;
  int num_computed = 0;  // of both: the others were in the cache folder
  // Records of the folder, as far as they were met, that were not sound, and are not used.
  int64_t num_damaged = 0;
  int64_t size_bytes = 0;
};

// Immutable once loaded, and safe to use from several threads.
class TrainableModel {
 public:
  virtual ~TrainableModel() = default;

  virtual const nn::Model& model() const = 0;
  // By component; null for backbones. A backbone's own frozen layers are among its parameters.
  virtual const std::vector<const nn::ParameterSet*>& frozen_parameters() const = 0;
  // Pixels a side that the data loader must give.
  virtual int image_size() const = 0;
  // What both sides of pictures must be multiples of, where steps may have other sizes; 0: all have
  // image_size().
  virtual int size_multiple() const { return 0; }
  // model() for pictures of another size: alike it (nn/alike.h), so that it trains the same
  // parameters. Unimplemented where there is one size only; InvalidArgument where a side is no
  // multiple of size_multiple().
  virtual absl::StatusOr<nn::Model> MakeModel(ImageSize size) const {
    return absl::UnimplementedError("this kind of model is trained at one size only");
  }
  // Whether its backbone is told where a sample lies in its picture, so that it can be a patch;
  // then it has a size_multiple(), too.
  virtual bool takes_coordinates() const { return false; }
  // What captions are cut to fit; null where the model reads no text.
  virtual const ClipTokenizer* tokenizer() const { return nullptr; }
  // Whether each sample also needs a condition picture.
  virtual bool wants_conditions() const { return false; }
  // The share of captions to leave out where nobody says otherwise.
  virtual double default_caption_drop() const { return 0.1; }
  // A line for a person: "tiny_sd, 2.41 M trainable parameters in 48 layers, 64 x 64 pixels".
  virtual std::string Describe() const = 0;

  enum class Start { kFolder, kRandom };
  // Sentences for a person about how the folder's configuration, weights and adapters are
  // understood.
  virtual std::vector<std::string> notes(Start start) const { return {}; }
  // The parameters of all backbones by name, fp32: the folder's, or random ones, which depend on
  // the seed and each parameter's name only. NotFound where the folder has none.
  virtual absl::StatusOr<NamedTensors> InitialParameters(Start start, uint64_t seed) const = 0;
  // True if the folder has weights, sound or not, of any backbone.
  virtual bool has_weights() const = 0;
  // Returns where InitialParameters' weights come from, for a person: "unet from FOLDER/unet".
  virtual std::string DescribeStart(Start start, uint64_t seed) const = 0;
  // Returns where the frozen components' weights come from: "vae and text_encoder from FOLDER".
  // Empty if there are none.
  virtual std::string DescribeFrozen() const = 0;

  // The loader and this outlive what is returned.
  virtual absl::StatusOr<std::unique_ptr<InputProvider>> MakeInputs(
      DataLoader* loader, const InputsOptions& options) const = 0;

  // As MakeInputs', with the frozen outputs computed now, spread over the workers. Unimplemented
  // where the model has no such cache; FailedPrecondition where the loader crops or flips at
  // random.
  virtual absl::StatusOr<CachedInputs> MakeCachedInputs(
      const CacheRequest& request, const InputsOptions& options,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress) const {
    return absl::UnimplementedError("this kind of model has no cache of frozen outputs");
  }

  // Writes `folder` in diffusers layout: complete, so that Load, and diffusers where it has such a
  // pipeline, reads it. InvalidArgument where it is the folder that this was loaded from.
  virtual absl::Status Save(const std::string& folder, const NamedTensors& parameters,
                            StoredFormat format) const = 0;

  // InvalidArgument where Draw would refuse these options, or one of these prompts, whatever the
  // parameters and conditions.
  virtual absl::Status CheckDraw(const std::vector<std::string>& prompts,
                                 const DrawOptions& options) const = 0;

  // What a person should know of how these options draw: a sentence, or empty. It is
  // ChooseSampler's note (models/diffusion/samplers/samplers.h).
  virtual std::string SamplerNote(const DrawOptions& options) const = 0;

  // One image a prompt; image i depends on (seed, i, prompt, condition) alone.
  virtual absl::StatusOr<std::vector<Image>> Draw(
      const NamedTensors& parameters, const DrawRequest& request,
      const std::vector<DeviceWorker*>& workers,
      const std::function<void(double)>& on_progress) const = 0;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_TRAINABLE_MODEL_H_
