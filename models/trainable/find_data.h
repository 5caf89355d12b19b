// Where a command finds the data for a model.
#ifndef DPIPE_MODELS_TRAINABLE_FIND_DATA_H_
#define DPIPE_MODELS_TRAINABLE_FIND_DATA_H_

#include <functional>
#include <string>

#include "core/base/status.h"

namespace dpipe::models {

// `data` as the user gave it, or, where it is empty, the built-in data set, made if it is not there
// yet, with condition pictures where the model's kind takes them. The kind is FindModelKind's by
// `model_folder` and `kind`; its errors come up where the built-in data set is asked for. `say` is
// told before a while of work.
absl::StatusOr<std::string> FindDataFor(const std::string& model_folder, const std::string& kind,
                                        const std::string& data,
                                        const std::function<void(const std::string&)>& say);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_FIND_DATA_H_
