// Which of diffusers' schedulers describe the process that is implemented here.
#ifndef DPIPE_MODELS_DIFFUSION_SCHEDULER_CLASS_H_
#define DPIPE_MODELS_DIFFUSION_SCHEDULER_CLASS_H_

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe::diffusion {

// OK for a `_class_name` whose process is that of noise_schedule.h: these schedulers differ in how
// they draw, not in what was trained, so that any sampler may take their place. InvalidArgument for
// others: flow matching, EDM's and continuous processes, and names that are not known.
absl::Status CheckSchedulerClass(absl::string_view class_name);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_SCHEDULER_CLASS_H_
