#ifndef DPIPE_MODELS_TRAINABLE_DROPOUT_H_
#define DPIPE_MODELS_TRAINABLE_DROPOUT_H_

#include <string>

#include "core/base/status.h"

namespace dpipe::models {

// Returns InvalidArgument with the path of the config.json and the value if `dropout` is not 0.
// Only sampling may ignore dropout; training may not.
absl::Status CheckNoDropout(const std::string& config_path, double dropout);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_DROPOUT_H_
