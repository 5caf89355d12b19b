// The table of samplers, and the choice of the one that draws as a folder's scheduler does.
#ifndef DPIPE_MODELS_DIFFUSION_SAMPLERS_SAMPLERS_H_
#define DPIPE_MODELS_DIFFUSION_SAMPLERS_SAMPLERS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/samplers/solver.h"

namespace dpipe::diffusion {

// Returns all samplers, in the order in which messages list them.
const std::vector<SamplerInfo>& Samplers();
const SamplerInfo& SamplerOf(SamplerKind kind);

// Parses "ddim", "dpm++", ...; returns an empty optional for "folder", the sampler of the model's
// own scheduler. Returns InvalidArgument with the list of names if the name is unknown.
absl::StatusOr<std::optional<SamplerKind>> ParseSampler(absl::string_view name);

struct SamplerChoice {
  SamplerKind kind = SamplerKind::kDdim;
  std::string note;  // a sentence if pictures differ from those of diffusers, else empty
};

// Returns the sampler of diffusers' scheduler of these options, or `wanted`, for which diffusers
// would make a scheduler from the same file. Chooses DDIM if the class has no sampler here, or if
// its sampler does not support the options' prediction type. The note says so, or lists the keys of
// scheduler_config.json that are not followed.
SamplerChoice ChooseSampler(const NoiseScheduleOptions& options,
                            std::optional<SamplerKind> wanted = std::nullopt);

// Returns the keys for which diffusers' scheduler of this kind would draw differently than this
// sampler, each with its value ("use_lu_lambdas is true"), in the order of SamplerInfo::followed.
std::vector<std::string> KeysNotFollowed(const NoiseScheduleOptions& options, SamplerKind kind);

absl::StatusOr<std::unique_ptr<Solver>> MakeSolver(SamplerKind kind, const SolverSetup& setup);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_SAMPLERS_SAMPLERS_H_
