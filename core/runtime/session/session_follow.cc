// Operations of a session's followers, and how the leader receives their results.
#include <algorithm>
#include <utility>

#include "core/runtime/session/local_session.h"
#include "core/runtime/session/session_processes.h"

namespace dpipe {
namespace {

constexpr char kRan[] = "the end of the run";

}  // namespace

absl::Status LocalSession::Follow() {
  while (!ended_) DPIPE_RETURN_IF_ERROR(FollowNext());
  return absl::OkStatus();
}

absl::Status LocalSession::FollowNext() {
  DPIPE_CHECK(processes_ != nullptr && !processes_->is_leader());
  DPIPE_ASSIGN_OR_RETURN(const SessionCommand command, processes_->NextCommand());
  absl::Status status;
  switch (command.kind_case()) {
    case SessionCommand::kRun:
      status = FollowRun(command.run());
      break;
    case SessionCommand::kState:
      status = FollowGather(OwnState(command.state()));
      break;
    case SessionCommand::kParameters:
      status = FollowGather(OwnParameters());
      break;
    case SessionCommand::kRestore:
      status = FollowRestore(command.restore().num_updates());
      break;
    case SessionCommand::kEnd:
      ended_ = true;
      break;
    default:
      status = absl::InternalError("a command unknown to this build");
  }
  if (status.ok()) return status;
  failed_ = true;
  processes_->Fail(status);
  return status;
}

absl::Status LocalSession::FollowRun(const SessionCommand::Run& run) {
  const std::unique_ptr<StepSink> steps = processes_->MakeStepSender();
  const int64_t first_step = next_step_;
  DPIPE_RETURN_IF_ERROR(RunRanks(run.count(), run.is_last(), run.record(), steps.get()));
  return processes_->Send(0, kRan, TakeReport(first_step));
}

absl::Status LocalSession::ReceiveRuns(ProcessRun* report) {
  for (int process = 1; process < processes_->num_processes(); ++process) {
    ProcessRun received;
    DPIPE_RETURN_IF_ERROR(processes_->Receive(process, kRan, &received));
    report->MergeFrom(received);
  }
  return absl::OkStatus();
}

}  // namespace dpipe
