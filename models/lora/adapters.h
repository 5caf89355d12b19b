// The low-rank adapters of a model: read from a file, merged into the weights of the denoiser and
// the text encoder or trained, and saved.
#ifndef DPIPE_MODELS_LORA_ADAPTERS_H_
#define DPIPE_MODELS_LORA_ADAPTERS_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/blocks/lora.h"
#include "core/nn/parameters.h"
#include "models/lora/lora.h"
#include "models/weights/weights.h"

namespace dpipe::models {

struct AdapterOptions {
  // A file, or a folder with one (FindLoraFile). Empty selects the model folder's own file
  // (kLoraFile), if there is one.
  std::string file;
  float merged_scale = 1;  // of adapters that are merged
  // With a rank > 0, the denoiser's adapters are trained instead of merged.
  nn::LoraSpec trained = {};
  LoraFormat saved_format = LoraFormat::kDiffusers;
};

// Immutable.
class Adapters {
 public:
  Adapters() = default;  // without a file
  // Finds and reads the file for the model in `model_folder`. Without one, there is nothing to
  // merge. Errors are those of FindLoraFile and LoadLora.
  static absl::StatusOr<Adapters> Load(const std::string& model_folder,
                                       const AdapterOptions& options, const LoraTargets& targets);

  // The file in use; empty if there is none.
  const std::string& file() const { return options_.file; }
  bool has_file() const { return !file().empty(); }
  // Sentences for the user about unused parts of the file.
  const std::vector<std::string>& notes() const { return merged_.notes; }
  const nn::LoraSpec& trained() const { return options_.trained; }
  bool are_trained() const { return trained().rank > 0; }
  bool change_denoiser() const { return !merged_.unet.empty(); }
  // Of text encoder number `encoder`, from 0.
  bool change_text_encoder(size_t encoder) const { return !OfTextEncoder(encoder).empty(); }

  // Adds adapters to the weights in place. The denoiser's weights lack names with
  // `ignored_prefixes`.
  absl::Status MergeIntoDenoiser(const std::vector<std::string>& ignored_prefixes,
                                 NamedTensors* weights) const;
  absl::Status MergeIntoTextEncoder(size_t encoder, nn::ParameterSet* parameters) const;

  // Returns the trained parameters of a denoiser's training program: the file's or, without one,
  // those of the init rules. Returns InvalidArgument, with a list, if the file has adapters that
  // are not trained and would be lost, lacks one, or has another rank.
  absl::StatusOr<NamedTensors> StartOfTraining(const nn::Program& training) const;
  // Returns the denoiser's weights with trained adapters among `parameters` merged into them.
  absl::StatusOr<NamedTensors> WithTrainedMerged(const NamedTensors& parameters) const;
  // Writes trained adapters into a folder, from which Load reads them.
  absl::Status Save(const std::string& folder, const NamedTensors& adapters,
                    StoredFormat format) const;

 private:
  Adapters(AdapterOptions options, LoraTargets targets);
  NamedTensors OfTextEncoder(size_t encoder) const;
  absl::Status Merge(const NamedTensors& adapters, NamedTensors* weights) const;

  AdapterOptions options_;
  LoraTargets targets_;
  LoraAdapters merged_;
};

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LORA_ADAPTERS_H_
