#include "models/trainable/trainable_model.h"

#include "absl/strings/str_cat.h"

namespace dpipe::models {

absl::Status TrainableModel::LoadAllFrozen() const {
  for (int c = 0; c < model().num_components(); ++c) {
    if (model().component(c).is_backbone) continue;
    DPIPE_RETURN_IF_ERROR(LoadFrozen(c, model().component(c).program.all_layers()));
  }
  return absl::OkStatus();
}

absl::StatusOr<NamedTensors> TrainableModel::InitialParameters(Start start, uint64_t seed) const {
  DPIPE_ASSIGN_OR_RETURN(const nn::ParameterSourcePtr source, InitialSource(start, seed));
  std::vector<const nn::Program*> programs;
  for (int c : model().backbones()) programs.push_back(&model().component(c).program);
  return nn::ReadAll(*source, programs);
}

absl::Status CheckNoDropout(const std::string& config_path, double dropout) {
  if (dropout == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(config_path, ": 'dropout' is ", dropout,
                   ", but training with dropout is not supported: set it to 0 to train without"));
}

}  // namespace dpipe::models
