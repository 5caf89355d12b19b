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

// The model in `folder`, of the kind in the options or else of the first that its model_index.json
// matches. NotFound where there is no such folder; InvalidArgument where there is no such kind, or
// none that matches, listing what there is. Further errors are the kind's own.
absl::StatusOr<std::unique_ptr<TrainableModel>> LoadTrainableModel(const std::string& folder,
                                                                   const LoadModelOptions& options);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_LOAD_H_
