// Communication between the processes of one session, other than the ranks' messages.
//
// Process 0 leads: its session is used like any other, and it forwards each operation to the
// others, which follow. Commands and reports go through the job's store. Its waits have no
// deadline, because the leader may save or sample for a long time, but end with the job's failure.
#ifndef DPIPE_CORE_RUNTIME_SESSION_SESSION_PROCESSES_H_
#define DPIPE_CORE_RUNTIME_SESSION_SESSION_PROCESSES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/comm/communicator.h"
#include "core/comm/job_rank.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/runtime/interpreter/rank_executor.h"
#include "core/runtime/session/step_sink.h"
#include "core/runtime/session_message.pb.h"

namespace dpipe {

class SessionProcesses {
 public:
  // Every process creates the same number of these, in the same order. `group` outlives this.
  explicit SessionProcesses(ProcessGroup* group);

  bool is_leader() const { return group_->is_leader(); }
  int num_processes() const { return group_->num_processes(); }
  int num_ranks() const { return group_->num_ranks(); }
  // Returns the name of this process, for messages.
  const std::string& name() const { return group_->store().NameOf(group_->process()); }
  std::vector<Rank> local_ranks() const { return group_->local_ranks(); }
  // Returns a process's first rank, whose communicator sends and receives its tensors.
  Rank FirstRankOf(int process) const;

  // Creates a rank's communicator. Called on the rank's thread, for all ranks at once. A null
  // `connect` means Gloo.
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(Rank rank, std::shared_ptr<Device> device,
                                                        absl::Duration deadline,
                                                        const ConnectJobRankFn& connect);
  // Returns the leader's epoch, by this host's monotonic clock.
  absl::StatusOr<Nanos> AgreeOnEpoch(Nanos own);

  // Sends a command to all followers. For the leader.
  absl::Status Tell(const SessionCommand& command);
  // Forwards steps of other processes' ranks to `sink`, until it is set to null.
  void OnSteps(StepSink* sink);

  // Waits for the next command. For a follower.
  absl::StatusOr<SessionCommand> NextCommand();
  // Returns a sink that sends steps of this process's ranks to the leader.
  std::unique_ptr<StepSink> MakeStepSender();

  // Exchange messages between the leader and one follower.
  absl::Status Send(int to, const std::string& what, const google::protobuf::Message& message);
  absl::Status Receive(int from, const std::string& what, google::protobuf::Message* message);

  absl::Status failure() const { return group_->store().failure(); }
  void Fail(const absl::Status& status) { group_->store().Fail(status); }

 private:
  std::string Key(const std::string& what, int process) const;

  ProcessGroup* const group_;
  const std::string name_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_SESSION_SESSION_PROCESSES_H_
