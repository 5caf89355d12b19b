#ifndef DPIPE_MODELS_TRAINABLE_DROPOUT_H_
#define DPIPE_MODELS_TRAINABLE_DROPOUT_H_

#include <string>

#include "core/base/status.h"

namespace dpipe::models {

// InvalidArgument with the config.json and its value where a model that is to be trained has
// dropout, which only drawing may leave out.
absl::Status CheckNoDropout(const std::string& config_path, double dropout);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TRAINABLE_DROPOUT_H_
