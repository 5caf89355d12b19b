#include "models/folder/load_options.h"

#include "absl/strings/str_cat.h"

namespace dpipe::models {

absl::Status CheckNoFlowOptions(const LoadModelOptions& options, const std::string& folder) {
  using diffusion::FlowDensity;
  const diffusion::FlowSamplingOptions usual;
  const diffusion::FlowSamplingOptions& sampling = options.flow_sampling;
  const FlowDensity density = options.flow_density.value_or(FlowDensity::kUniform);
  const char* what = density == FlowDensity::kLogitNormal                 ? "timesteps=logit_normal"
                     : density == FlowDensity::kMode                      ? "timesteps=mode"
                     : sampling.logit_mean != usual.logit_mean            ? "logit_mean"
                     : sampling.logit_std != usual.logit_std              ? "logit_std"
                     : sampling.mode_scale != usual.mode_scale            ? "mode_scale"
                     : sampling.shift != usual.shift                      ? "timestep_shift"
                     : options.flow_weight != diffusion::FlowWeight::kOne ? "loss_weighting"
                                                                          : nullptr;
  if (what == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(folder, ": the option ", what, " is for models of flow matching, but this one ",
                   "has a noise schedule; leave it out, or see timesteps=speed and min_snr_gamma"));
}

}  // namespace dpipe::models
