#include "models/diffusion/scheduler_class.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace dpipe::diffusion {
namespace {

using Json = nlohmann::json;

// Those of diffusers 0.35.1 and 0.42.1 that are made of betas and draw pictures from noise.
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

// A key and the only value that the sampler follows, as JSON.
struct Followed {
  const char *key, *value;
};

constexpr Followed kDdpmFollows[] = {{"variance_type", "\"fixed_small\""}};

constexpr Followed kDpmSolverFollows[] = {
    {"algorithm_type", "\"dpmsolver++\""},
    {"euler_at_final", "false"},
    {"final_sigmas_type", "\"zero\""},
    {"lower_order_final", "true"},
    {"solver_order", "2"},
    {"solver_type", "\"midpoint\""},
    {"use_beta_sigmas", "false"},
    {"use_exponential_sigmas", "false"},
    {"use_lu_lambdas", "false"},
};

template <size_t n>
std::vector<std::string> Others(const Json& config, const Followed (&followed)[n]) {
  std::vector<std::string> others;
  for (const Followed& f : followed) {
    const auto it = config.find(f.key);
    if (it == config.end() || it->is_null() || *it == Json::parse(f.value)) continue;
    others.push_back(
        absl::StrCat(f.key, " is ", it->dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  return others;
}

}  // namespace

absl::Status CheckSchedulerClass(absl::string_view class_name) {
  if (std::find(std::begin(kBetaSchedulers), std::end(kBetaSchedulers), class_name) !=
      std::end(kBetaSchedulers)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the scheduler is a ", class_name,
                   ", which is not known to be of a diffusion process with betas; supported are "
                   "models that were trained with one, whose scheduler is a DDIMScheduler, "
                   "PNDMScheduler, DPMSolverMultistepScheduler or similar"));
}

std::vector<std::string> KeysNotFollowed(absl::string_view json, SamplerKind kind) {
  const Json config =
      Json::parse(json.begin(), json.end(), /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) return {};
  switch (kind) {
    case SamplerKind::kDdim:
      return {};
    case SamplerKind::kDdpm:
      return Others(config, kDdpmFollows);
    case SamplerKind::kDpmSolver:
      return Others(config, kDpmSolverFollows);
  }
  return {};
}

}  // namespace dpipe::diffusion
