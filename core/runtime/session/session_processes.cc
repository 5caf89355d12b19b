#include "core/runtime/session/session_processes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/host/host_name.h"
#include "core/comm/gloo/gloo.h"

namespace dpipe {
namespace {

constexpr char kCommand[] = "command";
constexpr char kStep[] = "step";
constexpr char kEpoch[] = "epoch";

RankStep StepMessage(int64_t step, const std::vector<StepLosses>& losses,
                     const StepOutcome& outcome, const RankPeak& memory) {
  RankStep message;
  message.set_step(step);
  for (const StepLosses& part : losses) {
    RankStep::Losses& added = *message.add_losses();
    added.set_backbone(part.backbone);
    added.set_begin(part.samples.begin);
    added.set_end(part.samples.end);
    for (float loss : part.losses) added.add_losses(loss);
  }
  message.set_global_norm(outcome.global_norm);
  message.set_num_bad_losses(outcome.num_bad_losses);
  message.set_applied(outcome.applied);
  message.set_rank(memory.rank.value());
  message.set_peak_memory_bytes(memory.peak_bytes);
  return message;
}

void PassOn(const RankStep& message, StepSink* sink) {
  std::vector<StepLosses> losses;
  for (const RankStep::Losses& part : message.losses()) {
    StepLosses& added = losses.emplace_back();
    added.backbone = part.backbone();
    added.samples = {part.begin(), part.end()};
    added.losses.assign(part.losses().begin(), part.losses().end());
  }
  StepOutcome outcome;
  outcome.global_norm = message.global_norm();
  outcome.num_bad_losses = message.num_bad_losses();
  outcome.applied = message.applied();
  // Clocks of different hosts disagree: a step ends when the leader receives its report.
  sink->RankDone(message.step(), losses, outcome,
                 {Rank(message.rank()), message.peak_memory_bytes()}, MonotonicNow());
}

class StepSender : public StepSink {
 public:
  StepSender(StoreClient* store, std::string key) : store_(store), key_(std::move(key)) {}

  void RankDone(int64_t step, const std::vector<StepLosses>& losses, const StepOutcome& outcome,
                const RankPeak& memory, Nanos now_ns) override {
    // If the store is gone, the job has failed, which is reported elsewhere.
    store_->SendNote(0, key_, StepMessage(step, losses, outcome, memory).SerializeAsString())
        .IgnoreError();
  }
  void Restart(Nanos now_ns) override {}

 private:
  StoreClient* const store_;
  const std::string key_;
};

}  // namespace

SessionProcesses::SessionProcesses(ProcessGroup* group)
    : group_(group), name_(absl::StrCat("session ", group->NextNumber())) {}

std::string SessionProcesses::Key(const std::string& what, int process) const {
  return absl::StrCat(name_, "/", what, "/", process);
}

Rank SessionProcesses::FirstRankOf(int process) const {
  return Rank(process * (group_->num_ranks() / group_->num_processes()));
}

absl::StatusOr<std::unique_ptr<Communicator>> SessionProcesses::Connect(
    Rank rank, std::shared_ptr<Device> device, absl::Duration deadline,
    const ConnectJobRankFn& connect) {
  const JobRank own{name_, rank, group_->num_ranks(), std::move(device), deadline};
  return connect ? connect(&group_->store(), own) : ConnectGloo(&group_->store(), own);
}

absl::StatusOr<Nanos> SessionProcesses::AgreeOnEpoch(Nanos own) {
  SessionEpoch epoch;
  if (is_leader()) {
    epoch.set_host(HostName());
    epoch.set_monotonic_ns(own);
    epoch.set_unix_ns(absl::ToUnixNanos(absl::Now()) - (MonotonicNow() - own));
    DPIPE_RETURN_IF_ERROR(group_->store().Set(Key(kEpoch, 0), epoch.SerializeAsString()));
    return own;
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string text,
                         group_->store().Get(Key(kEpoch, 0), "the epoch of the session"));
  if (!epoch.ParseFromString(text))
    return absl::InternalError("the session's epoch cannot be parsed");
  if (epoch.host() == HostName()) return epoch.monotonic_ns();
  // The accuracy is that of the hosts' time of day.
  return MonotonicNow() - (absl::ToUnixNanos(absl::Now()) - epoch.unix_ns());
}

absl::Status SessionProcesses::Tell(const SessionCommand& command) {
  for (int process = 1; process < num_processes(); ++process) {
    DPIPE_RETURN_IF_ERROR(Send(process, kCommand, command));
  }
  return absl::OkStatus();
}

absl::StatusOr<SessionCommand> SessionProcesses::NextCommand() {
  SessionCommand command;
  DPIPE_RETURN_IF_ERROR(Receive(0, kCommand, &command));
  return command;
}

void SessionProcesses::OnSteps(StepSink* sink) {
  for (int process = 1; process < num_processes(); ++process) {
    if (sink == nullptr) {
      group_->store().OnNote(Key(kStep, process), nullptr);
      continue;
    }
    group_->store().OnNote(Key(kStep, process), [sink](const std::string& text) {
      RankStep message;
      if (message.ParseFromString(text)) PassOn(message, sink);
    });
  }
}

std::unique_ptr<StepSink> SessionProcesses::MakeStepSender() {
  return std::make_unique<StepSender>(&group_->store(), Key(kStep, group_->process()));
}

// A note's key names its sender, so that the leader can wait for one follower after another.
absl::Status SessionProcesses::Send(int to, const std::string& what,
                                    const google::protobuf::Message& message) {
  return group_->store().SendNote(to, Key(what, group_->process()), message.SerializeAsString());
}

absl::Status SessionProcesses::Receive(int from, const std::string& what,
                                       google::protobuf::Message* message) {
  DPIPE_ASSIGN_OR_RETURN(
      const std::string text,
      group_->store().TakeNote(Key(what, from),
                               absl::StrCat("'", what, "' from ", group_->store().NameOf(from))));
  if (message->ParseFromString(text)) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("'", what, "' from ", group_->store().NameOf(from),
                                          " is not a ", message->GetTypeName()));
}

}  // namespace dpipe
