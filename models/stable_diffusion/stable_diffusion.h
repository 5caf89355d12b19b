// Stable Diffusion from a folder in diffusers layout: the common part of training and sampling.
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_STABLE_DIFFUSION_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_STABLE_DIFFUSION_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "core/nn/model.h"
#include "core/nn/parameters.h"
#include "core/tensor/tensor.h"
#include "data/images/image.h"
#include "models/clip_text/clip_text_config.h"
#include "models/diffusion/noise_schedule.h"
#include "models/folder/scheduler_changes.h"
#include "models/lora/lora.h"
#include "models/tokenizer/clip_tokenizer.h"
#include "models/unet/unet_config.h"
#include "models/unet/unet_parts.h"
#include "models/vae/vae_config.h"
#include "models/weights/weights.h"

namespace dpipe::models {

class StableDiffusion;

// Returns the classes of folders that StableDiffusion::Load reads, its own first. Other pipelines
// use the same parts in other ways.
const std::vector<std::string>& StableDiffusionClasses();

// A backbone that is trained instead of the U-Net, behind the two encoders.
struct BackboneParts {
  std::vector<nn::Component> components;
  // For each frozen one of these components, in order: the subfolder with its weights, and prefixes
  // of names in it that belong to other components.
  struct Weights {
    std::string subfolder;
    std::vector<std::string> ignored_prefixes;
  };
  std::vector<Weights> frozen;
  // The model's subfolder for the trained component, which the backbone's owner saves; empty if
  // there is none.
  std::string subfolder;
};

struct StableDiffusionOptions {
  int image_size = 0;        // pixels per side; 0 selects the size in the U-Net's configuration
  double min_snr_gamma = 0;  // 0 weights all timesteps equally
  // Override the folder's scheduler configuration.
  std::optional<diffusion::PredictionType> prediction_type;
  std::optional<bool> zero_terminal_snr;
  // With a rank > 0, only low-rank adapters of the U-Net's attentions are trained.
  nn::LoraSpec lora = {};
  // Naming of trained adapters in the file that Save writes.
  LoraFormat lora_format = LoraFormat::kDiffusers;
  // A file of low-rank adapters, or a folder with one (FindLoraFile). Empty selects the folder's
  // own file (kLoraFile), if there is one. Adapters that are merged into the weights are scaled by
  // `adapters_scale`.
  std::string adapters_file;
  float adapters_scale = 1;
  // The U-Net takes its own estimate, or coordinates, as additional input channels: see
  // LoadModelOptions.
  bool self_conditioning = false;
  bool coordinates = false;
  // Makes the backbone after the model's configurations have been read. Null trains the U-Net.
  std::function<absl::StatusOr<BackboneParts>(const StableDiffusion&)> make_backbone;
};

// Immutable once loaded. The model's components are "vae_encoder" (pixels, vae_noise -> latents),
// "text_encoder" (ids -> last_hidden_state), and "unet" (latents, context, noise, timesteps ->
// loss) or the components of make_backbone.
class StableDiffusion {
 public:
  // Reads the tokenizer, the configurations, corrected as in diffusers (config_corrections.h), and
  // the frozen components' weights, but not the U-Net's. If the folder has no weights at all, not
  // even for the U-Net, the frozen components get random weights by their init rules, with a fixed
  // seed. Errors name the file and the problem. Returns InvalidArgument if model_index.json has a
  // class outside StableDiffusionClasses, or components beyond one U-Net and one text encoder.
  static absl::StatusOr<std::unique_ptr<StableDiffusion>> Load(
      const std::string& folder, const StableDiffusionOptions& options);

  const std::string& folder() const { return folder_; }
  const nn::Model& model() const { return *model_; }
  // By component, null for the backbone.
  const std::vector<const nn::ParameterSet*>& frozen_parameters() const { return frozen_pointers_; }
  const ClipTokenizer& tokenizer() const { return *tokenizer_; }
  const diffusion::NoiseSchedule& schedule() const { return *schedule_; }
  const UNetConfig& unet_config() const { return unet_config_; }
  const VaeConfig& vae_config() const { return vae_config_; }
  const ClipTextConfig& text_config() const { return text_config_; }
  int image_size() const { return image_size_; }
  UNetShape unet_shape() const { return unet_shape({image_size_, image_size_}); }
  UNetShape unet_shape(ImageSize size) const;
  int latent_size() const { return image_size_ / static_cast<int>(vae_config_.downscale()); }

  // Returns the number of which the sides of pictures must be multiples: the VAE's factor times
  // that of the U-Net's levels.
  int size_multiple() const;
  // Returns the two encoders and the U-Net for pictures of another size. Has the same parameters as
  // model() (nn/same_structure.h), unless that has another backbone. Returns InvalidArgument if a
  // side is not a multiple of size_multiple().
  absl::StatusOr<nn::Model> MakeModel(ImageSize size) const;
  // Returns the two encoders alone; errors are the same.
  absl::StatusOr<std::vector<nn::Component>> MakeEncoders(ImageSize size) const;
  // Returns the program of "vae_encoder" alone.
  absl::StatusOr<nn::Program> MakeVaeEncoder(ImageSize size) const;

  // True if the frozen components have random weights, because the folder has none.
  bool frozen_is_random() const { return frozen_is_random_; }
  // Sentences for the user about the interpretation of the folder's configuration, weights and
  // adapters.
  const std::vector<std::string>& notes() const { return notes_; }
  // The folder's scheduler_config.json, with the changes of the options.
  const std::string& scheduler_config() const { return scheduler_config_; }

  // Returns the origin of the frozen components' weights and of the adapters merged into them:
  // TrainableModel::DescribeFrozen.
  std::string DescribeFrozen() const;
  // True if the folder has U-Net weights; one to train from scratch has none.
  bool has_unet_weights() const;
  // The file of low-rank adapters in use; empty if there is none.
  const std::string& adapters_file() const { return adapters_file_; }
  bool has_adapters() const { return !adapters_file_.empty(); }
  const nn::LoraSpec& lora() const { return lora_; }
  // Returns the folder's U-Net parameters by name. Input channels that the folder's U-Net does not
  // take have zero weights. The file of low-rank adapters (models/lora), if there is one, is merged
  // into the weights. If adapters are trained, it is their starting point instead; without a file
  // they start by their init rules. Returns InvalidArgument, with a list, if the file has adapters
  // that are not trained and would be lost. (Load merges the text encoder's adapters in all cases.)
  absl::StatusOr<std::map<std::string, Tensor>> LoadUNet() const;
  // Returns random U-Net parameters by name, by their init rules. Further input channels that are
  // new to the folder's U-Net have zero weights.
  std::map<std::string, Tensor> RandomUNet(uint64_t seed) const;
  // Returns the U-Net's parameters as a frozen part: random if the frozen components are random,
  // else the folder's.
  absl::StatusOr<std::map<std::string, Tensor>> LoadLockedUNet() const;
  // Returns the parameters of a VAE decoder's program by name, for sampling.
  absl::StatusOr<std::map<std::string, Tensor>> LoadDecoder(const nn::Program& decoder) const;

  // Writes a complete `folder` in diffusers layout, which diffusers can load.
  //
  // - It has every component named in the original folder's model_index.json, including those that
  //   are not used here, such as a safety checker. Each has its configuration and the weights that
  //   were read (CopyComponent). If a component's subfolder is missing in the original folder, it
  //   is missing here too, and the index says so.
  // - The U-Net's weights are the parameters `unet` (fp32). With trained adapters, their file is
  //   written instead, and the U-Net's own weights, which are copied byte for byte if the folder
  //   has them.
  // - Random weights of frozen components are written. A text encoder with adapters is written with
  //   the adapters merged.
  // - The scheduler has the prediction type and schedule used in training (scheduler_changes.h).
  //
  // Returns InvalidArgument if this model was loaded from that folder.
  absl::Status Save(const std::string& folder, const std::map<std::string, Tensor>& unet,
                    StoredFormat format = StoredFormat::kFp32) const;
  // The same with LoadLockedUNet's weights. If these are the folder's unchanged weights, its files
  // are copied byte for byte; otherwise (merged adapters, random weights) they are written as a new
  // file.
  absl::Status SaveWithLockedUNet(const std::string& folder, StoredFormat format) const;

 private:
  StableDiffusion() = default;
  const nn::Program& unet_program() const;
  // Returns the file's adapters; the U-Net's are to be applied with `scale`.
  absl::StatusOr<LoraAdapters> ReadAdapters(float scale) const;
  absl::Status FindAdapters(const StableDiffusionOptions& options);
  // Keeps the adapters that are to be merged.
  absl::Status LoadAdaptersToMerge();
  absl::Status MergeAdapters(const NamedTensors& adapters, NamedTensors* weights) const;
  absl::Status MergeIntoTextEncoder();
  // Returns the folder's U-Net, or the part of it in `program`, with the folder's adapters merged.
  absl::StatusOr<NamedTensors> LoadMergedUNet(const nn::Program& program,
                                              const LoadWeightsOptions& options) const;
  absl::StatusOr<std::map<std::string, Tensor>> LoadUNetWithAdapters() const;
  // Replaces the values of `adapters`, the complete set of trained adapters, by the stored ones.
  absl::Status LoadAdapters(NamedTensors* adapters) const;
  // Returns the program of a U-Net that takes latents alone.
  absl::StatusOr<nn::Program> MakeNarrowUNet() const;
  void Widen(std::map<std::string, Tensor>* narrow) const;
  absl::Status WidenUNet(const StableDiffusionOptions& options);
  absl::Status ReadUNet();
  absl::Status CheckChannels() const;
  absl::Status CheckVae() const;
  void NoteSchedulerClasses(const std::string& of_config, const std::string& of_index);
  absl::Status ReadConfigs(const StableDiffusionOptions& options);
  absl::Status BuildModel(const StableDiffusionOptions& options);
  absl::StatusOr<nn::Program> MakeUNet(ImageSize size) const;
  nn::Component AsBackbone(nn::Program unet) const;
  absl::Status LoadFrozen(int component, const BackboneParts::Weights& weights);
  void InitFrozen(int component);
  absl::Status CopyComponents(const std::string& folder, bool with_unet_weights) const;
  absl::Status SaveOthers(const std::string& folder, bool with_unet_weights,
                          StoredFormat format) const;
  absl::Status SaveTextEncoder(const std::string& folder, StoredFormat format) const;
  absl::Status SaveRandomVae(const std::string& folder, StoredFormat format) const;
  absl::Status SaveScheduler(const std::string& folder) const;

  std::string folder_;
  SchedulerChanges changes_;
  std::string scheduler_config_;  // the folder's, with changes_
  int image_size_ = 0;
  double min_snr_gamma_ = 0;
  nn::LoraSpec lora_;
  bool widened_ = false;  // this U-Net has further input channels that the folder's lacks
  bool frozen_is_random_ = false;
  LoraFormat lora_format_ = LoraFormat::kDiffusers;
  std::string adapters_file_;  // empty if there is none
  float adapters_scale_ = 1;
  LoraAdapters adapters_;  // merged into weights when these are loaded
  bool text_encoder_is_adapted_ = false;
  std::vector<std::string> notes_;
  UNetConfig unet_config_;
  VaeConfig vae_config_;
  ClipTextConfig text_config_;
  std::unique_ptr<ClipTokenizer> tokenizer_;
  std::unique_ptr<diffusion::NoiseSchedule> schedule_;
  std::unique_ptr<nn::Model> model_;
  std::vector<BackboneParts::Weights> weights_;  // of the frozen components, in order
  std::string saved_elsewhere_;                  // BackboneParts::subfolder
  std::unique_ptr<nn::Program> unet_program_;    // if the model has another backbone
  std::vector<std::unique_ptr<nn::ParameterSet>> frozen_;
  std::vector<const nn::ParameterSet*> frozen_pointers_;
};

// Component indices of StableDiffusion::model(); the last one only if the U-Net is trained.
inline constexpr int kVaeEncoder = 0;
inline constexpr int kTextEncoder = 1;
inline constexpr int kUNet = 2;

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_STABLE_DIFFUSION_H_
