// The share of the GPUs' peak speed that training steps reach ("model FLOP utilization").
#ifndef DPIPE_TOOLS_TRAINING_SHARE_OF_PEAK_H_
#define DPIPE_TOOLS_TRAINING_SHARE_OF_PEAK_H_

#include <vector>

#include "core/tensor/device_worker.h"

namespace dpipe::tools {

// Returns the dense bf16 peak of these devices together, in multiply-adds per second. A virtual
// device counts by its multiprocessors. 0 if one is no GPU, or its peak is not known
// (roofline::FindGpu).
double PeakMacsPerSecond(const std::vector<DeviceWorker*>& workers);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_SHARE_OF_PEAK_H_
