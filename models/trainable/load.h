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

// Every kind, in the order in which a folder is offered to them.
const std::vector<ModelKind>& ModelKinds();

// Returns the kind of the model in `folder`: the one named `kind`, or, if that is empty, the one
// whose own class the folder's model_index.json names. NotFound if there is no such folder or
// index; InvalidArgument if there is no such kind, or if it is not loaded from folders of that
// class, listing what is supported.
absl::StatusOr<const ModelKind*> FindModelKind(const std::string& folder, const std::string& kind);

// The model in `folder`, of the kind that FindModelKind finds by the options'. Errors are that
// function's and the kind's own.
absl::StatusOr<std::unique_ptr<TrainableModel>> LoadTrainableModel(const std::string& folder,
                                                                   const LoadModelOptions& options);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_LOAD_H_
