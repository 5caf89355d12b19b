// A latent diffusion model from a folder in diffusers layout: its parts with their weights. The
// common part of training and drawing, for every model family.
#ifndef DPIPE_MODELS_LATENT_LATENT_PIPELINE_H_
#define DPIPE_MODELS_LATENT_LATENT_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/nn/model.h"
#include "core/nn/parameter_source.h"
#include "core/nn/parameters.h"
#include "data/images/image.h"
#include "models/folder/load_options.h"
#include "models/latent/latent_parts.h"
#include "models/lora/adapters.h"
#include "models/weights/weights.h"

namespace dpipe::models {

// Component indices of LatentPipeline::model(): text encoder i is kFirstTextEncoder + i, and the
// denoiser's components follow.
inline constexpr int kVaeEncoder = 0;
inline constexpr int kFirstTextEncoder = 1;

// Immutable once loaded.
class LatentPipeline {
 public:
  // Opens the frozen components' weights, but not the denoiser's. If the folder has no weights at
  // all, not even for the denoiser, the frozen components get random weights by their init rules,
  // with a fixed seed. Errors name the file and the problem.
  static absl::StatusOr<std::unique_ptr<LatentPipeline>> Load(LatentParts parts,
                                                              const LoadModelOptions& options);

  const LatentParts& parts() const { return parts_; }
  const Denoiser& denoiser() const { return *parts_.denoiser; }
  const diffusion::Objective& objective() const { return *parts_.objective; }
  const std::string& folder() const { return parts_.folder.path(); }
  int image_size() const { return parts_.image_size; }
  LatentSize latent_size() const { return parts_.LatentSizeOf({image_size(), image_size()}); }
  const nn::Model& model() const { return *model_; }
  // By component, null for the backbone. Only layers that LoadFrozen has read have values.
  const std::vector<const nn::ParameterSet*>& frozen_parameters() const { return frozen_pointers_; }
  // Reads some layers of a frozen component, unless they have been read. Thread-safe. Errors are
  // those of WeightReader::Read and of merging adapters.
  absl::Status LoadFrozen(int component, LayerRange layers) const;
  absl::Status LoadFrozen(int component) const;  // all layers

  // Returns the components for pictures of another size. They have the same parameters as model()
  // (nn/model.h). Returns InvalidArgument if a side is not a multiple of
  // parts().size_multiple().
  absl::StatusOr<nn::Model> MakeModel(ImageSize size) const;
  // The same without the encoders, whose outputs become external inputs.
  absl::StatusOr<nn::Model> MakeModelBehindEncoders(ImageSize size) const;

  // Subfolders that are read, and that Save writes even if the index does not name them.
  std::set<std::string> read_components() const;
  // True if the frozen components have random weights, because the folder has none.
  bool frozen_is_random() const { return frozen_is_random_; }
  // Sentences for the user about the interpretation of the folder's configuration, weights and
  // adapters.
  const std::vector<std::string>& notes() const { return notes_; }
  // Returns the origin of the frozen components' weights and of the adapters merged into them:
  // TrainableModel::DescribeFrozen.
  std::string DescribeFrozen() const;
  // True if the folder has the denoiser's weights; one to train from scratch has none.
  bool has_denoiser_weights() const;
  // Returns NotFound, with a command that trains some, if it has none.
  absl::Status CheckIsTrained() const;
  const Adapters& adapters() const { return adapters_; }

  // Returns the source of the folder's denoiser parameters. Inputs that the folder's denoiser does
  // not take have zero weights. The file of low-rank adapters (models/lora), if there is one, is
  // merged into the weights. If adapters are trained, it is their starting point instead; without a
  // file they start by their init rules. Returns InvalidArgument, with a list, if the file has
  // adapters that are not trained and would be lost. (Load merges the text encoder's adapters in
  // all cases.)
  absl::StatusOr<nn::ParameterSourcePtr> OpenDenoiser() const;
  // Returns random denoiser parameters, by their init rules. Inputs that are new to the folder's
  // denoiser have zero weights.
  nn::ParameterSourcePtr DrawDenoiser(uint64_t seed) const;
  // Returns the denoiser's parameters as a frozen part: random if the frozen components are random,
  // else the folder's.
  absl::StatusOr<nn::ParameterSourcePtr> OpenLockedDenoiser() const;
  // Read all of these, by name. This object must outlive the sources.
  absl::StatusOr<NamedTensors> LoadDenoiser() const;
  NamedTensors RandomDenoiser(uint64_t seed) const;
  absl::StatusOr<NamedTensors> LoadLockedDenoiser() const;
  // Returns the parameters of a VAE decoder's program by name, for drawing.
  absl::StatusOr<NamedTensors> LoadDecoder(const nn::Program& decoder) const;

  // Writes a complete `folder` in diffusers layout, which diffusers can load.
  //
  // - It has every component of the original folder, with its configuration and the weights that
  //   were read (PipelineFolder::CopyTo).
  // - The denoiser's weights are the parameters `denoiser`, which are read one after another. With
  //   trained adapters, their file is written instead, and the denoiser's own weights, which are
  //   copied byte for byte, and not read, if the folder has them.
  // - Random weights of frozen components are written. A text encoder with adapters is written with
  //   the adapters merged.
  // - The scheduler has the prediction type and schedule used in training (scheduler_file.h).
  //
  // Returns InvalidArgument if this model was loaded from that folder.
  absl::Status Save(const std::string& folder, const nn::ParameterSource& denoiser,
                    StoredFormat format = StoredFormat::kFp32) const;
  absl::Status Save(const std::string& folder, const NamedTensors& denoiser,
                    StoredFormat format = StoredFormat::kFp32) const {
    return Save(folder, *nn::SourceOf(denoiser), format);
  }
  // The same with LoadLockedDenoiser's weights, without the components `left_out`, which the caller
  // writes. If they are the folder's unchanged weights, its files are copied byte for byte;
  // otherwise (merged adapters, random weights) they are written as a new file.
  absl::Status SaveWithLockedDenoiser(const std::string& folder,
                                      const std::set<std::string>& left_out,
                                      StoredFormat format) const;

 private:
  explicit LatentPipeline(LatentParts parts) : parts_(std::move(parts)) {}
  // Subfolders with weights, the denoiser's first.
  std::vector<std::string> WeightFolders() const;
  // Returns the weights of the frozen components, in order.
  std::vector<FrozenWeights> WeightsOfFrozen() const;
  absl::StatusOr<nn::Program> BuildStored() const;
  // Returns the backbone's parameters, given those that the folder stores. `trained` adapters have
  // these values.
  nn::ParameterSourcePtr FromStored(nn::Program stored, nn::ParameterSourcePtr source,
                                    NamedTensors trained) const;
  // Returns the denoiser's parameters, with those of trained adapters.
  std::vector<nn::ParameterInfo> DenoiserParameters() const;
  absl::StatusOr<NamedTensors> ReadDenoiser(const nn::ParameterSource& source) const;
  absl::StatusOr<nn::Model> NamedModel(ImageSize size, std::vector<nn::Component> components) const;
  absl::Status LoadAdapters(const LoadModelOptions& options);
  absl::Status OpenFrozen(int component, const FrozenWeights& weights);
  // Opens the folder's denoiser, or the part of it in `program`, with the adapters merged.
  absl::StatusOr<nn::ParameterSourcePtr> OpenMergedDenoiser(
      const nn::Program& program, const LoadWeightsOptions& options) const;
  // The denoiser's parameters to be written. Without a source, the folder's weights are copied.
  struct SavedDenoiser {
    const nn::ParameterSource* source = nullptr;
    std::vector<nn::ParameterInfo> parameters;
  };
  absl::Status SaveAll(const std::string& folder, const SavedDenoiser& denoiser,
                       const std::set<std::string>& left_out, StoredFormat format) const;
  absl::Status SaveFrozen(const std::string& folder, StoredFormat format) const;

  const LatentParts parts_;
  std::vector<std::string> notes_;
  std::unique_ptr<nn::Model> model_;
  Adapters adapters_;
  bool frozen_is_random_ = false;
  std::vector<nn::ParameterSourcePtr> frozen_sources_;  // by component
  mutable absl::Mutex frozen_mutex_;                    // held while masters are added
  std::vector<std::unique_ptr<nn::ParameterSet>> frozen_;
  std::vector<const nn::ParameterSet*> frozen_pointers_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_LATENT_PIPELINE_H_
