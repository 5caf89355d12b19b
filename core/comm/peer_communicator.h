// Ranks that are threads of one process, on devices that run asynchronously and can access each
// other's memory: virtual GPUs of one card, which NCCL does not support.
//
// A message is a reference handed over, as in in_process, with an event that is recorded when its
// tensors have been written. Work that the receiver enqueues waits for that event; its thread does
// not. Collectives consist of such messages on a twin of each rank's device, alongside the rank's
// other work.
#ifndef DPIPE_CORE_COMM_PEER_COMMUNICATOR_H_
#define DPIPE_CORE_COMM_PEER_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/in_process.h"
#include "core/tensor/device.h"

namespace dpipe {

// Returns the communicators of the ranks that drive `devices`, in rank order. Their tensors are on
// these devices.
std::vector<std::unique_ptr<Communicator>> CreatePeerCommunicators(
    const std::vector<std::shared_ptr<Device>>& devices, const InProcessOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_PEER_COMMUNICATOR_H_
