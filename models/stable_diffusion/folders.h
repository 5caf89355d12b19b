// Where a command finds the model and the data set that it was asked for by name or folder.
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_FOLDERS_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_FOLDERS_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::models {

// Names of the built-in models. tiny_sd has weights; the others are full-size configurations alone,
// to be trained from random weights.
const std::vector<std::string>& BuiltInModels();

// True if `model` is the name of one, not a folder.
bool IsBuiltInModel(const std::string& model);

// A built-in model's folder for its name; else `model` is a folder itself, as the user gave it.
// InvalidArgument for a plain word that is neither. NotFound, with the command that fetches it, for
// a URL or the name of a model on the Hugging Face hub, "user/model", that is no folder here.
absl::StatusOr<std::string> FindModelFolder(const std::string& model);

// `data` as the user gave it, or, where it is empty, the built-in data set's folder below the
// workspace, made if it is not there yet; `say` is told so once, before a while of work. NotFound
// for a URL or the name of a data set on the hub, likewise.
// `with_conditions`: the one with a condition picture for each image.
absl::StatusOr<std::string> FindDataFolder(const std::string& data,
                                           const std::function<void(const std::string&)>& say,
                                           bool with_conditions = false);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_FOLDERS_H_
