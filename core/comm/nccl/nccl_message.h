// Messages as NCCL carries them.
//
// In a group, NCCL has one call to each rank under way, and one from each: a second one begins when
// the group's others are through. Calls of a group that are to progress whatever becomes of the
// others are therefore one a message, and a message of several tensors goes in one piece.
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
  // On the way; undefined: the tensors themselves are, of which one at most is not empty.
  Tensor whole;
  bool copies = false;  // between the two
};

NcclMessage MessageTo(int peer, std::string what, std::vector<Tensor> tensors);
// Its tensors are made on `device`. They lie in the piece that arrives, if they are of one type.
NcclMessage MessageFrom(int peer, std::string what, const std::vector<TensorSpec>& specs,
                        const std::shared_ptr<Device>& device);

// What the stream uses: all tensors of the messages.
std::vector<Tensor> TensorsOf(absl::Span<const NcclMessage> messages);

// Enqueues the sending and receiving of all messages as one group, which is not settled yet. Then,
// when it is, what is left to be done with what has arrived.
absl::Status EnqueueMessages(const NcclCall& call, absl::Span<const NcclMessage> messages);
absl::Status EnqueueUnpacking(const NcclCall& call, absl::Span<const NcclMessage> messages);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_NCCL_MESSAGE_H_
