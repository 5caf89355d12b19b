// Reads model_index.json, which names the class and the components of a model folder in diffusers
// layout.
#ifndef DPIPE_MODELS_FOLDER_MODEL_INDEX_H_
#define DPIPE_MODELS_FOLDER_MODEL_INDEX_H_

#include <optional>
#include <set>
#include <string>

#include "core/base/status.h"

namespace dpipe::models {

// Values of class_name: Stable Diffusion, without and with a ControlNet; SDXL.
inline constexpr char kStableDiffusionClass[] = "StableDiffusionPipeline";
inline constexpr char kControlNetPipelineClass[] = "StableDiffusionControlNetPipeline";
inline constexpr char kStableDiffusionXlClass[] = "StableDiffusionXLPipeline";

struct ModelIndex {
  std::string class_name;            // "StableDiffusionPipeline"
  std::set<std::string> components;  // names of the components present: "unet", "vae", ...
  std::string scheduler_class;       // class of the component "scheduler"; empty if there is none
  std::optional<bool> force_zeros_for_empty_prompt;  // of SDXL
};

// Parses the text of a model_index.json; `path` is for messages. Returns InvalidArgument if the
// text is not an object with a string _class_name, or if a component's name is not a valid
// subfolder name.
absl::StatusOr<ModelIndex> ParseModelIndex(const std::string& text, const std::string& path);

// Reads the index of the model in `folder`. Returns NotFound if this is not a folder or has no
// model_index.json. The message then describes the folder (a single file of weights, or the folder
// of one component) and the expected layout. Other errors are those of ParseModelIndex.
absl::StatusOr<ModelIndex> ReadModelIndex(const std::string& folder);

// Returns the index `text` with `components` set to [null, null]. If the safety checker is among
// them, also sets requires_safety_checker to false. If `components` is empty, returns `text`
// unchanged, byte for byte. `text` must be an index that ParseModelIndex accepts.
std::string WithoutComponents(const std::string& text, const std::set<std::string>& components);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FOLDER_MODEL_INDEX_H_
