// For tests of what knows CPUs only, on transports between GPUs.
#ifndef DPIPE_CORE_COMM_NCCL_SEND_THROUGH_GPU_H_
#define DPIPE_CORE_COMM_NCCL_SEND_THROUGH_GPU_H_

#include <memory>

#include "core/comm/communicator.h"
#include "core/tensor/device.h"

namespace dpipe {

// A communicator for tensors of `cpu`: they go over `inner`, the communicator of `gpu`, and its
// waits block until the GPU is there, as those of CPUs do.
std::unique_ptr<Communicator> SendThroughGpu(std::unique_ptr<Communicator> inner,
                                             std::shared_ptr<Device> gpu,
                                             std::shared_ptr<Device> cpu);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_SEND_THROUGH_GPU_H_
