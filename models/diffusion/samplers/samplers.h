// The table of samplers, and which one draws as a folder's scheduler does.
#ifndef DPIPE_MODELS_DIFFUSION_SAMPLERS_SAMPLERS_H_
#define DPIPE_MODELS_DIFFUSION_SAMPLERS_SAMPLERS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "models/diffusion/noise_schedule.h"
#include "models/diffusion/sampler_kind.h"
#include "models/diffusion/samplers/solver.h"

namespace dpipe::diffusion {

// All samplers, in the order in which messages list them.
const std::vector<SamplerInfo>& Samplers();
const SamplerInfo& SamplerOf(SamplerKind kind);

// "ddim", "dpm++", ...; nothing for "folder": the one of the model's own scheduler. InvalidArgument
// lists the names.
absl::StatusOr<std::optional<SamplerKind>> ParseSampler(absl::string_view name);

struct SamplerChoice {
  SamplerKind kind = SamplerKind::kDdim;
  std::string note;  // a sentence, if pictures will differ from what diffusers draws; else empty
};

// The sampler that draws as diffusers' scheduler of these options does, or `wanted`, as which
// diffusers would make a scheduler from the same file. Where the class has no sampler here, or its
// sampler does not draw from the options' prediction type, it is DDIM. The note says that, or which
// keys of scheduler_config.json are not followed.
SamplerChoice ChooseSampler(const NoiseScheduleOptions& options,
                            std::optional<SamplerKind> wanted = std::nullopt);

// The keys that ask diffusers' scheduler of this kind for another way of drawing than the
// sampler's, each with its value: "use_lu_lambdas is true". Sorted.
std::vector<std::string> KeysNotFollowed(const NoiseScheduleOptions& options, SamplerKind kind);

absl::StatusOr<std::unique_ptr<Solver>> MakeSolver(SamplerKind kind, const SolverSetup& setup);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_SAMPLERS_SAMPLERS_H_
