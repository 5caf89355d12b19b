// From the samples of a component's layers to one time a layer and pass.
//
// A layer takes micro- to milliseconds, so most of its samples see nothing of what else a machine
// does: interrupts, other programs' time slices, a hypervisor's. Their medians show how layers
// compare, but their sum is less than what a whole pass takes, and a step that ends when all
// devices have done theirs takes what the slowest of them does. The medians are therefore scaled:
// their sum is the typical duration of a pass on the worker that was slowest in it.
#ifndef DPIPE_CORE_PROFILE_TYPICAL_TIMES_H_
#define DPIPE_CORE_PROFILE_TYPICAL_TIMES_H_

#include <vector>

#include "core/base/time.h"
#include "core/profile/layer_timer.h"

namespace dpipe {

// Of a layer, for one batch.
struct TypicalTimes {
  Nanos forward_ns = 0, input_grad_ns = 0, weight_grad_ns = 0;
};

// The mean of the middle half: neither the rare long sample counts nor only the undisturbed ones.
// 0 of none.
Nanos Midmean(std::vector<Nanos> samples);

// By layer: the mean over workers of each one's medians, scaled. Workers have the same layers; each
// layer has as many samples of a kind as there were passes, or none.
std::vector<TypicalTimes> TypicalLayerTimes(const std::vector<ComponentSamples>& workers);

// The mean over workers of the midmeans of their load_ns.
Nanos TypicalLoadTime(const std::vector<ComponentSamples>& workers);

}  // namespace dpipe

#endif  // DPIPE_CORE_PROFILE_TYPICAL_TIMES_H_
