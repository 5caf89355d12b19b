// Messages in the form in which NCCL carries them.
//
// Within a group, NCCL has at most one call to each rank and one from each in flight; a second one
// begins when the group's other calls have completed. Messages must make progress independently, so
// each is one call, and a message of several tensors is sent in one piece.
#ifndef DPIPE_CORE_COMM_NCCL_NCCL_MESSAGE_H_
#define DPIPE_CORE_COMM_NCCL_NCCL_MESSAGE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/nccl/nccl_call.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

namespace dpipe {

struct NcclMessage {
  std::string what;  // "activation of micro-batch 3 from rank 1"
  int peer = 0;
  bool sends = false;
  std::vector<Tensor> tensors;
  // The piece that is sent. If undefined, the tensors themselves are sent, and at most one of them
  // is not empty.
  Tensor whole;
  bool copies = false;  // data is copied between `tensors` and `whole`
};

NcclMessage MessageTo(int peer, std::string what, std::vector<Tensor> tensors);
// Creates the tensors on `device`. They are slices of the piece that arrives if they are of one
// type.
NcclMessage MessageFrom(int peer, std::string what, const std::vector<TensorSpec>& specs,
                        const std::shared_ptr<Device>& device);

// Returns all tensors that the stream uses for the messages.
std::vector<Tensor> TensorsOf(absl::Span<const NcclMessage> messages);

// EnqueueMessages enqueues the sends and receives of all messages as one group, which is not
// settled yet. EnqueueUnpacking, called when it is, enqueues the remaining copies of received data.
absl::Status EnqueueMessages(const NcclCall& call, absl::Span<const NcclMessage> messages);
absl::Status EnqueueUnpacking(const NcclCall& call, absl::Span<const NcclMessage> messages);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_MESSAGE_H_
