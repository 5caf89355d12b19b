// Finds a command's data for a model.
#ifndef DPIPE_MODELS_TRAINABLE_FIND_DATA_H_
#define DPIPE_MODELS_TRAINABLE_FIND_DATA_H_

#include <functional>
#include <string>

#include "core/base/status.h"

namespace dpipe::models {

// Returns `data` as the user gave it. If it is empty, returns the built-in data set, which is
// created if necessary, with condition pictures if the kind of the model takes them. The kind is
// that of FindModelKind(model_folder, kind), whose errors are returned only in this case. Calls
// `report` before long work.
absl::StatusOr<std::string> FindDataFor(const std::string& model_folder, const std::string& kind,
                                        const std::string& data,
                                        const std::function<void(const std::string&)>& report);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_FIND_DATA_H_
