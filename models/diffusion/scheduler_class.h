// Which of diffusers' schedulers describe the process that is implemented here, and what of their
// configurations the samplers do not follow.
#ifndef DPIPE_MODELS_DIFFUSION_SCHEDULER_CLASS_H_
#define DPIPE_MODELS_DIFFUSION_SCHEDULER_CLASS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "models/diffusion/sampler_kind.h"

namespace dpipe::diffusion {

// OK for a `_class_name` whose process is that of noise_schedule.h: these schedulers differ in how
// they draw, not in what was trained, so that any sampler may take their place. InvalidArgument for
// others: flow matching, EDM's and continuous processes, and names that are not known.
absl::Status CheckSchedulerClass(absl::string_view class_name);

// The keys of a `scheduler_config.json` that ask diffusers' scheduler of this kind for another way
// of drawing than the sampler's here, each with its value: "use_lu_lambdas is true". Empty where
// there are none, or the text is not a JSON object.
std::vector<std::string> KeysNotFollowed(absl::string_view json, SamplerKind kind);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_SCHEDULER_CLASS_H_
