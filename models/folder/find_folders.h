// Finds the model and the data set that a command was given by name or folder.
#ifndef DPIPE_MODELS_FOLDER_FIND_FOLDERS_H_
#define DPIPE_MODELS_FOLDER_FIND_FOLDERS_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::models {

// Returns the names of the built-in models. Only tiny_sd has weights; the others are
// configurations, which are trained from random weights.
const std::vector<std::string>& BuiltInModels();

// True if `model` is the name of a built-in model.
bool IsBuiltInModel(const std::string& model);

// The model's folder in the folder of a training run.
inline constexpr char kModelOfRun[] = "model";

// Returns the model's folder in `folder` if that is the folder of a training run; otherwise returns
// `folder`.
std::string ModelOfRun(const std::string& folder);

// Returns a built-in model's folder for its name; otherwise returns `model`, which must be a
// folder, as the user gave it, or ModelOfRun. Returns InvalidArgument for a plain word that is
// neither. Returns NotFound, with the command that fetches it, for a URL or the name of a model on
// the Hugging Face hub ("user/model") that is not a local folder.
absl::StatusOr<std::string> FindModelFolder(const std::string& model);

// Returns `data` as the user gave it. If it is empty, returns the built-in data set's folder below
// the workspace, which is created if necessary, with a condition picture per image if
// `with_conditions`. Calls `report` once before long work. Returns NotFound, with the command that
// fetches it, for a URL or the name of a data set on the hub.
absl::StatusOr<std::string> FindDataFolder(const std::string& data,
                                           const std::function<void(const std::string&)>& report,
                                           bool with_conditions = false);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_FOLDER_FIND_FOLDERS_H_
