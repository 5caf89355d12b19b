// What the processes of one session say to each other besides the ranks' messages.
//
// Process 0 leads: its session is used like any other, and what it is asked to do it tells the
// others, which follow. Commands and reports go by way of the job's store, whose waits have no
// deadline, because the leader may save or draw for a long time, but end with the job's failure.
#ifndef DPIPE_CORE_RUNTIME_SESSION_PROCESSES_H_
#define DPIPE_CORE_RUNTIME_SESSION_PROCESSES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/comm/communicator.h"
#include "core/comm/job_rank.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/runtime/rank_executor.h"
#include "core/runtime/session_message.pb.h"
#include "core/runtime/step_sink.h"

namespace dpipe {

class SessionProcesses {
 public:
  // Every process makes as many of them, in the same order. `group` outlives this.
  explicit SessionProcesses(ProcessGroup* group);

  bool is_leader() const { return group_->is_leader(); }
  int num_processes() const { return group_->num_processes(); }
  int num_ranks() const { return group_->num_ranks(); }
  // Of this process, for people.
  const std::string& name() const { return group_->store().NameOf(group_->process()); }
  std::vector<Rank> local_ranks() const { return group_->local_ranks(); }
  // The first of a process's ranks, by whose communicator it sends and gets tensors.
  Rank FirstRankOf(int process) const;

  // A rank's communicator; on its thread, all ranks at once. `connect`: null is Gloo.
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(Rank rank, std::shared_ptr<Device> device,
                                                        absl::Duration deadline,
                                                        const ConnectJobRankFn& connect);
  // The leader's epoch, by this host's monotonic clock.
  absl::StatusOr<Nanos> AgreeOnEpoch(Nanos own);

  // The leader's.
  absl::Status Tell(const SessionCommand& command);
  // Steps of other processes' ranks go to `sink`, until it is null.
  void OnSteps(StepSink* sink);

  // A follower's.
  absl::StatusOr<SessionCommand> NextCommand();
  // Sends steps of this process's ranks to the leader.
  std::unique_ptr<StepSink> MakeStepSender();

  // Between the leader and one follower.
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

#endif  // DPIPE_CORE_RUNTIME_SESSION_PROCESSES_H_
