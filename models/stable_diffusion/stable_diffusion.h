// Stable Diffusion from a folder in diffusers layout: what training and sampling have in common.
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
#include "data/image.h"
#include "models/clip_text/clip_text_config.h"
#include "models/diffusion/noise_schedule.h"
#include "models/lora/lora.h"
#include "models/stable_diffusion/scheduler_changes.h"
#include "models/tokenizer/clip_tokenizer.h"
#include "models/unet/unet_config.h"
#include "models/unet/unet_parts.h"
#include "models/vae/vae_config.h"
#include "models/weights/weights.h"

namespace dpipe::models {

class StableDiffusion;

// The classes of folders that StableDiffusion::Load reads: its own first. Other pipelines with the
// same parts use them in other ways.
const std::vector<std::string>& StableDiffusionClasses();

// What is trained in the place of the U-Net, behind the two encoders.
struct BackboneParts {
  std::vector<nn::Component> components;
  // Of those of them that are frozen, in order: the subfolder with their weights, and the prefixes
  // of names there that belong to something else.
  struct Weights {
    std::string subfolder;
    std::vector<std::string> ignored_prefixes;
  };
  std::vector<Weights> frozen;
  // The model's subfolder for what is trained, which is saved by whoever trains it; empty: none.
  std::string subfolder;
};

struct StableDiffusionOptions {
  int image_size = 0;        // pixels a side; 0: the size that the U-Net's config was made for
  double min_snr_gamma = 0;  // 0: all timesteps weigh the same
  // Instead of what the folder's scheduler config says.
  std::optional<diffusion::PredictionType> prediction_type;
  std::optional<bool> zero_terminal_snr;
  // With a rank: low-rank adapters of the U-Net's attentions are trained, and only they.
  nn::LoraSpec lora = {};
  // How trained adapters are named in the file that Save writes.
  LoraFormat lora_format = LoraFormat::kDiffusers;
  // A file of low-rank adapters, or a folder with one (FindLoraFile), in the place of the folder's
  // own; empty: that one (kLoraFile), if there is one. Where they are merged into the weights they
  // count `adapters_scale` times.
  std::string adapters_file;
  float adapters_scale = 1;
  // The U-Net takes its own estimate, or coordinates, as further input channels: see
  // LoadModelOptions.
  bool self_conditioning = false;
  bool coordinates = false;
  // Makes it from the model's configs, which are read by then. Null: the U-Net is trained.
  std::function<absl::StatusOr<BackboneParts>(const StableDiffusion&)> make_backbone;
};

// Immutable once loaded. The model's components are "vae_encoder" (pixels, vae_noise -> latents),
// "text_encoder" (ids -> last_hidden_state) and "unet" (latents, context, noise, timesteps ->
// loss), or what make_backbone gives instead of that one.
class StableDiffusion {
 public:
  // Reads configs, which are corrected as diffusers corrects them (config_corrections.h), tokenizer
  // and the frozen components' weights, but not the U-Net's. Where the
  // folder has no weights at all, of the U-Net neither, the frozen components get random ones by
  // their init rules, always the same. Errors name the file, and what of it is wrong.
  // InvalidArgument if model_index.json has a class that is not among StableDiffusionClasses, or
  // components beyond one U-Net and one text encoder.
  static absl::StatusOr<std::unique_ptr<StableDiffusion>> Load(
      const std::string& folder, const StableDiffusionOptions& options);

  const std::string& folder() const { return folder_; }
  const nn::Model& model() const { return *model_; }
  // By component; null for the backbone.
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

  // What the sides of pictures must be multiples of: the VAE's factor times what the U-Net halves.
  int size_multiple() const;
  // The two encoders and the U-Net for pictures of another size: alike model() (nn/alike.h) where
  // that has no other backbone. InvalidArgument where a side is no multiple of size_multiple().
  absl::StatusOr<nn::Model> MakeModel(ImageSize size) const;
  // The two encoders alone; InvalidArgument likewise.
  absl::StatusOr<std::vector<nn::Component>> MakeEncoders(ImageSize size) const;
  // The program of its "vae_encoder" alone.
  absl::StatusOr<nn::Program> MakeVaeEncoder(ImageSize size) const;

  // Whether the frozen components' weights are random, for want of any in the folder.
  bool frozen_is_random() const { return frozen_is_random_; }
  // Sentences for a person about how the folder's configuration, weights and adapters are
  // understood.
  const std::vector<std::string>& notes() const { return notes_; }
  // The text of the scheduler_config.json that it has, with the changes of the options.
  const std::string& scheduler_config() const { return scheduler_config_; }

  // Where the frozen components' weights are from, for a person, and which adapters are merged into
  // them: TrainableModel::DescribeFrozen.
  std::string DescribeFrozen() const;
  // Whether the folder has U-Net weights: one to train from scratch has none.
  bool has_unet_weights() const;
  // The file of low-rank adapters that counts; empty: none.
  const std::string& adapters_file() const { return adapters_file_; }
  bool has_adapters() const { return !adapters_file_.empty(); }
  const nn::LoraSpec& lora() const { return lora_; }
  // The U-Net's parameters by name: the folder's, or random ones by their init rules, with zeros
  // for input channels that the folder's U-Net does not take. A folder may also have a file of
  // low-rank adapters (models/lora): they are merged into the weights, whatever is trained, or,
  // where adapters are trained, are what to go on from; without the file those begin by their init
  // rules. InvalidArgument lists the file's adapters that would then be neither. (Those of the text
  // encoder are merged into its weights by Load, whatever is trained.)
  absl::StatusOr<std::map<std::string, Tensor>> LoadUNet() const;
  std::map<std::string, Tensor> RandomUNet(uint64_t seed) const;
  // The U-Net as a frozen part: the folder's, or random where the frozen components are.
  absl::StatusOr<std::map<std::string, Tensor>> LoadLockedUNet() const;
  // The parameters of a VAE decoder's program by name, for sampling.
  absl::StatusOr<std::map<std::string, Tensor>> LoadDecoder(const nn::Program& decoder) const;

  // Writes `folder` in diffusers layout, complete, so that diffusers loads it: every component that
  // the model_index.json of the folder that this was loaded from names (also such that are not used
  // here, like a safety checker), each with its configuration and the weights that were read
  // (CopyComponent). One whose subfolder is missing there is missing here, and the index says so.
  // These U-Net parameters (fp32) are in the place of its own, the frozen components' weights are
  // there even where they are random, and so are the prediction type and schedule trained with
  // (scheduler_changes.h). Of trained adapters: with their file, and the U-Net as it was, byte for
  // byte where the folder has one. A text encoder with adapters is written with these merged.
  // InvalidArgument where it is the folder that this was loaded
  // from.
  absl::Status Save(const std::string& folder, const std::map<std::string, Tensor>& unet,
                    StoredFormat format = StoredFormat::kFp32) const;
  // The same with LoadLockedUNet's weights: the folder's files byte for byte where these are all
  // that there is, else (adapters merged into them, random ones) as a file of their own.
  absl::Status SaveWithLockedUNet(const std::string& folder, StoredFormat format) const;

 private:
  StableDiffusion() = default;
  const nn::Program& unet_program() const;
  // Those of the file, the U-Net's as such that count `scale` times.
  absl::StatusOr<LoraAdapters> ReadAdapters(float scale) const;
  absl::Status FindAdapters(const StableDiffusionOptions& options);
  // Keeps those that are to be merged.
  absl::Status LoadAdaptersToMerge();
  absl::Status MergeAdapters(const NamedTensors& adapters, NamedTensors* weights) const;
  absl::Status MergeIntoTextEncoder();
  // The folder's U-Net, or the part of it that is `program`, with the folder's adapters merged.
  absl::StatusOr<NamedTensors> LoadMergedUNet(const nn::Program& program,
                                              const LoadWeightsOptions& options) const;
  absl::StatusOr<std::map<std::string, Tensor>> LoadUNetWithAdapters() const;
  // In the place of these, which are all that are trained, the stored ones.
  absl::Status LoadAdapters(NamedTensors* adapters) const;
  // The program of a U-Net that takes latents alone.
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
  std::string scheduler_config_;  // the folder's, with them
  int image_size_ = 0;
  double min_snr_gamma_ = 0;
  nn::LoraSpec lora_;
  bool widened_ = false;  // the folder's U-Net takes latents alone, this one further channels
  bool frozen_is_random_ = false;
  LoraFormat lora_format_ = LoraFormat::kDiffusers;
  std::string adapters_file_;  // empty: none
  float adapters_scale_ = 1;
  LoraAdapters adapters_;  // those that are merged into weights when these are loaded
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
  std::unique_ptr<nn::Program> unet_program_;    // where the model has none
  std::vector<std::unique_ptr<nn::ParameterSet>> frozen_;
  std::vector<const nn::ParameterSet*> frozen_pointers_;
};

// Component indices of StableDiffusion::model(), the last of them where the U-Net is trained.
inline constexpr int kVaeEncoder = 0;
inline constexpr int kTextEncoder = 1;
inline constexpr int kUNet = 2;

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_STABLE_DIFFUSION_H_
