// For tests of CPU-only code on transports between GPUs.
#ifndef DPIPE_CORE_COMM_NCCL_TESTING_SEND_THROUGH_GPU_H_
#define DPIPE_CORE_COMM_NCCL_TESTING_SEND_THROUGH_GPU_H_

#include <memory>

#include "core/comm/communicator.h"
#include "core/tensor/device.h"

namespace dpipe {

// Returns a communicator for tensors on `cpu`. They are sent through `inner`, the communicator of
// `gpu`. Its waits block until the GPU is done, as those of CPUs do.
std::unique_ptr<Communicator> SendThroughGpu(std::unique_ptr<Communicator> inner,
                                             std::shared_ptr<Device> gpu,
                                             std::shared_ptr<Device> cpu);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_TESTING_SEND_THROUGH_GPU_H_
