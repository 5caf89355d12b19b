// DualPipeV (DeepSeek-AI and Sea AI Lab, 2025): DualPipe cut in half. It has one V-shaped chain
// instead of two full copies of the weights in opposite directions. The order of device r is
// published as eight runs; the .cc file writes them in terms of the number of devices after r.
// Backward passes are split into input and weight gradients if that unblocks the neighbour earlier:
// in the third run, at the end of the sixth, and in the seventh. All others are joint.
//
// Requires m >= 2p micro-batches for p devices. With F = I = W the makespan is 6m + p - 1. Each
// device is busy for 6m of it; the first pass takes p - 1 to reach the last device. A device keeps
// at most 2p + 1 (stage, micro-batch) pairs. The published figures count a forward pass and the
// backward pass that overlaps it as one; here they run one after the other. Costs do not change the
// order.
#ifndef DPIPE_CORE_SCHEDULE_GENERATORS_DUALPIPE_V_H_
#define DPIPE_CORE_SCHEDULE_GENERATORS_DUALPIPE_V_H_

#include <string>

#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Returns the DualPipeV schedule. InvalidArgument unless num_micro_batches >= 2 num_devices.
absl::StatusOr<Schedule> MakeDualPipeV(const std::string& name, int num_devices,
                                       int num_micro_batches);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_GENERATORS_DUALPIPE_V_H_
