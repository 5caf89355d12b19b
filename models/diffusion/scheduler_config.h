// Schedulers of diffusers that describe the process implemented here.
#ifndef DPIPE_MODELS_DIFFUSION_SCHEDULER_CONFIG_H_
#define DPIPE_MODELS_DIFFUSION_SCHEDULER_CONFIG_H_

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe::diffusion {

// Returns OK if the process of `_class_name` is that of noise_schedule.h. Such schedulers differ in
// sampling, not in the trained model, so any sampler can replace them. Returns InvalidArgument for
// others: flow matching, EDM's and continuous processes, and unknown names.
absl::Status CheckSchedulerClass(absl::string_view class_name);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_SCHEDULER_CONFIG_H_
