// Runs of a rank's messages: those between BeginMessages and EndMessages.
#ifndef DPIPE_CORE_COMM_NCCL_MESSAGE_RUNS_H_
#define DPIPE_CORE_COMM_NCCL_MESSAGE_RUNS_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/communicator.h"
#include "core/comm/nccl/comm_stream.h"
#include "core/comm/nccl/nccl_failure.h"
#include "core/comm/nccl/nccl_message.h"
#include "core/comm/nccl/rank_streams.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

namespace dpipe {

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
