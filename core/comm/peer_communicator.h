// Ranks that are threads of one process, on devices that run asynchronously and reach each other's
// memory: virtual GPUs of one card, which NCCL does not serve.
//
// A message is a reference handed over, as in_process has it, with an event that says when its
// tensors are written. What the receiver enqueues waits for that event, its thread does not.
// Collectives are made of such messages on a twin of each rank's device, beside what the rank does.
#ifndef DPIPE_CORE_COMM_PEER_COMMUNICATOR_H_
#define DPIPE_CORE_COMM_PEER_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "core/comm/communicator.h"
#include "core/comm/in_process.h"
#include "core/tensor/device.h"

namespace dpipe {

// The communicators of the ranks that drive `devices`, in rank order; tensors are on them.
std::vector<std::unique_ptr<Communicator>> CreatePeerCommunicators(
    const std::vector<std::shared_ptr<Device>>& devices, const InProcessOptions& options = {});

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_PEER_COMMUNICATOR_H_
