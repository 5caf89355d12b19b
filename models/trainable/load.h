// Loads a trainable model of any kind.
#ifndef DPIPE_MODELS_TRAINABLE_LOAD_H_
#define DPIPE_MODELS_TRAINABLE_LOAD_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "models/trainable/model_kind.h"
#include "models/trainable/trainable_model.h"

namespace dpipe::models {

// Returns every kind of model, in the order in which a folder is matched.
const std::vector<ModelKind>& ModelKinds();

// Returns the kind of the model in `folder`: the one named `kind` or, if that is empty, the one of
// the class in the folder's model_index.json. Returns NotFound if there is no such folder or index.
// Returns InvalidArgument, with the supported kinds or classes, if there is no such kind or it does
// not load folders of that class.
absl::StatusOr<const ModelKind*> FindModelKind(const std::string& folder, const std::string& kind);

// Loads the model in `folder`, of the kind that FindModelKind returns for options.kind. Errors are
// those of FindModelKind and of the kind.
absl::StatusOr<std::unique_ptr<TrainableModel>> LoadTrainableModel(const std::string& folder,
                                                                   const LoadModelOptions& options);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_LOAD_H_
