// Modelled profiles of large models that are fine-tuned, whole or by adapters. They are made when
// needed: there are too many to store.
#ifndef DPIPE_TOOLS_PROFILES_FINE_TUNING_H_
#define DPIPE_TOOLS_PROFILES_FINE_TUNING_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/profile.pb.h"

namespace dpipe::tools {

inline constexpr int kFineTuningRank = 16;  // of the adapters

// A model at a size in pixels, trained whole or by adapters.
struct FineTuning {
  std::string model;  // "sdxl", "stable_diffusion_3_5_medium", "stable_diffusion_3_5_large", "flux"
  int image_size = 0;
  bool adapters = false;

  std::string name() const;  // "flux_1024_lora"; without adapters "flux_1024"
};

// Returns the models at 512 and 1024 pixels: with adapters first.
std::vector<FineTuning> FineTunings();

// Returns the profile on a device of roofline::Devices(). It differs from a stored one in memory:
// weights that are not trained are held once, in bf16. With adapters, this holds for the backbone,
// too, of which nothing is held in fp32 but the adapters. Its dtype is then "fp32", by which the
// cost model knows that there is no second copy of the weights (CostModel::StateBytes); times and
// values are those of bf16. Returns InvalidArgument for another model or device.
absl::StatusOr<ModelProfile> FineTuningProfile(const FineTuning& tuning, const std::string& device);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PROFILES_FINE_TUNING_H_
