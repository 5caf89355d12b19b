#include "tools/profiles/fine_tuning.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/cost/roofline/device_spec.h"
#include "core/cost/roofline/modelled_profile.h"
#include "tools/profiles/catalogue.h"

namespace dpipe::tools {
namespace {

constexpr char kStableDiffusion35[] = "stable_diffusion_3_5_";

absl::StatusOr<roofline::ModelWork> WorkOf(const FineTuning& tuning) {
  const int rank = tuning.adapters ? kFineTuningRank : 0;
  if (tuning.model == "sdxl") return Sdxl(tuning.image_size, rank);
  if (tuning.model == "flux") return Flux(tuning.image_size, rank);
  if (absl::StartsWith(tuning.model, kStableDiffusion35)) {
    const std::string size(absl::StripPrefix(tuning.model, kStableDiffusion35));
    return StableDiffusion35(size, tuning.image_size, rank);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no model '", tuning.model,
                   "' to fine-tune; there are sdxl, stable_diffusion_3_5_medium, "
                   "stable_diffusion_3_5_large and flux"));
}

// Weights that are not trained are held in bf16: half of their fp32 bytes.
void HoldFrozenWeightsInBf16(ComponentProfile* component) {
  for (LayerProfile& layer : *component->mutable_layers()) {
    const int64_t trained = layer.trainable_parameter_bytes();
    layer.set_parameter_bytes(trained + (layer.parameter_bytes() - trained) / 2);
  }
}

}  // namespace

std::string FineTuning::name() const {
  return absl::StrCat(model, "_", image_size, adapters ? "_lora" : "");
}

std::vector<FineTuning> FineTunings() {
  std::vector<FineTuning> tunings;
  for (const bool adapters : {true, false}) {
    for (const char* model :
         {"sdxl", "stable_diffusion_3_5_medium", "stable_diffusion_3_5_large", "flux"}) {
      for (const int size : {512, 1024}) tunings.push_back({model, size, adapters});
    }
  }
  return tunings;
}

absl::StatusOr<ModelProfile> FineTuningProfile(const FineTuning& tuning,
                                               const std::string& device) {
  DPIPE_ASSIGN_OR_RETURN(const roofline::ModelWork work, WorkOf(tuning));
  for (const roofline::DeviceSpec& spec : roofline::Devices()) {
    if (spec.name != device) continue;
    ModelProfile profile = roofline::ModelledProfile(work, spec);
    for (ComponentProfile& component : *profile.mutable_components()) {
      HoldFrozenWeightsInBf16(&component);
    }
    if (tuning.adapters) profile.set_dtype("fp32");
    profile.mutable_provenance()->append(" Weights that are not trained are held once, in bf16.");
    return profile;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no device '", device, "'; core/cost/roofline/device_spec.cc lists all"));
}

}  // namespace dpipe::tools
