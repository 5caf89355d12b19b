// DualPipeV (DeepSeek-AI and Sea AI Lab, 2025): DualPipe cut in half. One chain in a V instead of
// two whole copies of the weights in opposite directions; the order of device r is published as
// eight runs (below, in terms of how many devices come after r). Backward passes are split into
// input and weight gradients where that lets the neighbour go on sooner, in the third, the end of
// the sixth and the seventh run, and are joint elsewhere.
//
// It needs m >= 2p micro-batches. With F = I = W the makespan is 6m + p - 1, of which each device
// works 6m: the p - 1 are the way to the last device. A device keeps 2p + 1 pairs. (The published
// figures count a forward and a backward pass that overlap each other as one; here they are one
// after the other.) Costs do not change the order.
#ifndef DPIPE_CORE_SCHEDULE_GENERATORS_DUALPIPE_V_H_
#define DPIPE_CORE_SCHEDULE_GENERATORS_DUALPIPE_V_H_

#include <string>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// InvalidArgument unless num_micro_batches >= 2 num_devices.
absl::StatusOr<Schedule> MakeDualPipeV(const std::string& name, int num_devices,
                                       int num_micro_batches);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_GENERATORS_DUALPIPE_V_H_
