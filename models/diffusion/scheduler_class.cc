#include "models/diffusion/scheduler_class.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/base/text/show.h"

namespace dpipe::diffusion {
namespace {

// Schedulers of diffusers 0.35.1 and 0.42.1 that are defined by betas and draw pictures from noise.
constexpr const char* kBetaSchedulers[] = {
    "DDIMParallelScheduler",
    "DDIMScheduler",
    "DDPMParallelScheduler",
    "DDPMScheduler",
    "DEISMultistepScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSDEScheduler",
    "DPMSolverSinglestepScheduler",
    "EulerAncestralDiscreteScheduler",
    "EulerDiscreteScheduler",
    "HeunDiscreteScheduler",
    "KDPM2AncestralDiscreteScheduler",
    "KDPM2DiscreteScheduler",
    "LCMScheduler",
    "LMSDiscreteScheduler",
    "PNDMScheduler",
    "SASolverScheduler",
    "TCDScheduler",
    "UniPCMultistepScheduler",
};

}  // namespace

absl::Status CheckSchedulerClass(absl::string_view class_name) {
  if (std::find(std::begin(kBetaSchedulers), std::end(kBetaSchedulers), class_name) !=
      std::end(kBetaSchedulers)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the scheduler is a ", ShowText(class_name),
      ", which is not a known scheduler of a diffusion process with betas; supported are "
      "DDIMScheduler, PNDMScheduler, DPMSolverMultistepScheduler and similar ones"));
}

}  // namespace dpipe::diffusion
