// Loads a trainable model of any kind.
#ifndef DPIPE_MODELS_TRAINABLE_LOAD_H_
#define DPIPE_MODELS_TRAINABLE_LOAD_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Returns every kind of model, in the order in which a folder is matched.
const std::vector<ModelKind>& ModelKinds();

// Returns the kind of the model in `folder`: the one named `kind` or, if that is empty, the one of
// the class in the folder's model_index.json. Returns NotFound if there is no such folder or index.
// Returns InvalidArgument, with the supported kinds or classes, if there is no such kind or it does
// not load folders of that class.
absl::StatusOr<const ModelKind*> FindModelKind(const std::string& folder, const std::string& kind);

// Returns the kind that loads the folder as a latent pipeline, with or without condition pictures;
// a folder with a ControlNet also loads as the plain model. Returns InvalidArgument, with the
// supported classes, if there is none. Other errors are those of FindModelKind.
absl::StatusOr<const ModelKind*> FindLatentKind(const std::string& folder, bool with_conditions);

// Loads the model in `folder` for training, of the kind that FindModelKind returns for
// options.kind. Errors are those of FindModelKind and of the kind, also if the model cannot be
// trained.
absl::StatusOr<std::unique_ptr<TrainableModel>> LoadTrainableModel(const std::string& folder,
                                                                   const LoadModelOptions& options);

// Finds a command's data for a model.
//
// Returns `data` as the user gave it. If it is empty, returns the built-in data set, which is
// created if necessary, with condition pictures if the kind of the model takes them. The kind is
// that of FindModelKind(model_folder, kind), whose errors are returned only in this case. Calls
// `report` before long work.
absl::StatusOr<std::string> FindDataFor(const std::string& model_folder, const std::string& kind,
                                        const std::string& data,
                                        const std::function<void(const std::string&)>& report);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_LOAD_H_
