// What a model folder in diffusers layout says that it is: its model_index.json.
#ifndef DPIPE_MODELS_CONFIG_MODEL_INDEX_H_
#define DPIPE_MODELS_CONFIG_MODEL_INDEX_H_

#include <set>
#include <string>

#include "core/base/status.h"

namespace dpipe::models {

// Classes of folders: a Stable Diffusion, and one with a ControlNet.
inline constexpr char kStableDiffusionClass[] = "StableDiffusionPipeline";
inline constexpr char kControlNetPipelineClass[] = "StableDiffusionControlNetPipeline";

struct ModelIndex {
  std::string class_name;            // "StableDiffusionPipeline"
  std::set<std::string> components;  // names of those that are there: "unet", "vae", ...
  std::string scheduler_class;       // of the component "scheduler"; empty: there is none
};

// From the text of a model_index.json; `path` is for messages. InvalidArgument where it is not an
// object with a string _class_name, or a component's name cannot be that of a subfolder.
absl::StatusOr<ModelIndex> ParseModelIndex(const std::string& text, const std::string& path);

// Of the model in `folder`. NotFound where it is not a folder or has no model_index.json: the error
// says what there is in its place, a single file of weights or the folder of one component, and
// what is expected. Further errors are as above.
absl::StatusOr<ModelIndex> ReadModelIndex(const std::string& folder);

// The text of an index that ParseModelIndex has accepted, as that of a folder without `components`:
// they are [null, null], and without a safety checker none is required. Without any it stays as it
// is, byte for byte.
std::string WithoutComponents(const std::string& text, const std::set<std::string>& components);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_CONFIG_MODEL_INDEX_H_
