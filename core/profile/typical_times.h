// Computes one time per layer and pass from the samples of a component's layers.
//
// A layer takes microseconds to milliseconds. So most of its samples miss the other activity of a
// machine: interrupts, time slices of other programs or of a hypervisor. The medians of the samples
// show how layers compare, but their sum is less than the time of a whole pass. Also, a step ends
// only when the slowest device is done. Therefore the medians are scaled: their sum is the typical
// duration of a pass on the worker that was slowest in it.
#ifndef DPIPE_CORE_PROFILE_TYPICAL_TIMES_H_
#define DPIPE_CORE_PROFILE_TYPICAL_TIMES_H_

#include <vector>

#include "core/base/time.h"
#include "core/profile/layer_timer.h"

namespace dpipe {

// The times of a layer, for one batch.
struct TypicalTimes {
  Nanos forward_ns = 0, input_grad_ns = 0, weight_grad_ns = 0;
};

// Returns the mean of the middle half of the samples: it is sensitive neither to rare long samples
// nor to the undisturbed ones alone. 0 if there are no samples.
Nanos Midmean(std::vector<Nanos> samples);

// Returns for each layer the mean of the workers' medians, scaled. All workers must have the same
// layers. Each layer has as many samples of a kind as there were passes, or none.
std::vector<TypicalTimes> TypicalLayerTimes(const std::vector<ComponentSamples>& workers);

// Returns the mean over workers of the midmeans of their load_ns.
Nanos TypicalLoadTime(const std::vector<ComponentSamples>& workers);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_TYPICAL_TIMES_H_
