// Runs of a rank's messages: those between BeginMessages and EndMessages.
#ifndef DPIPE_CORE_COMM_NCCL_MESSAGE_RUNS_H_
#define DPIPE_CORE_COMM_NCCL_MESSAGE_RUNS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/communicator.h"
#include "core/comm/nccl/comm_stream.h"
#include "core/comm/nccl/nccl_call.h"
#include "core/comm/nccl/nccl_failure.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// A message in the form in which NCCL carries it.
//
// Within a group, NCCL has at most one call to each rank and one from each in flight; a second one
// begins when the group's other calls have completed. Messages must make progress independently, so
// each is one call, and a message of several tensors is sent in one piece.
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

// A run becomes one NCCL group per direction, so that none of its messages waits for another one.
// However, a second message from one rank to the same rank begins a new group. Used by the rank's
// thread.
class MessageRuns {
 public:
  // `streams` and `failure` outlive this and the objects that it returns.
  MessageRuns(Rank rank, std::shared_ptr<Device> device, const RankStreams* streams,
              NcclFailure* failure);

  // A message outside Begin and End forms a separate run.
  void Begin() { in_run_ = true; }
  absl::Status End();
  absl::Status Send(Rank to, std::vector<Tensor> tensors, const std::string& what);
  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from,
                                                        const std::vector<TensorSpec>& specs,
                                                        const std::string& what);

 private:
  // Messages that go over one communicator as one NCCL group. `end` is set to the group's end event
  // once it is posted.
  struct Group {
    std::vector<NcclMessage> messages;
    std::shared_ptr<std::shared_ptr<CommEvent>> end =
        std::make_shared<std::shared_ptr<CommEvent>>();
  };
  static Group& Add(std::vector<Group>* run, NcclMessage message);
  static CommStream::Operation OperationOf(const Group& group);
  absl::Status Post();
  absl::Status PostGroups(const Group* up, const Group* down);  // null if there is none

  const Rank rank_;
  const std::shared_ptr<Device> device_;
  const RankStreams& streams_;
  NcclFailure& failure_;
  bool in_run_ = false;
  std::vector<Group> up_, down_;  // not posted yet, by direction
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_NCCL_MESSAGE_RUNS_H_
