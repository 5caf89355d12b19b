#include "models/trainable/dropout.h"

#include "absl/strings/str_cat.h"

namespace dpipe::models {

absl::Status CheckNoDropout(const std::string& config_path, double dropout) {
  if (dropout == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(config_path, ": 'dropout' is ", dropout,
                   ", but training with dropout is not supported: set it to 0 to train without"));
}

}  // namespace dpipe::models
