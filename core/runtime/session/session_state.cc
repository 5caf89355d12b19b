// Collecting and restoring a session's state.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/runtime/session/local_session.h"
#include "core/runtime/session/session_processes.h"

namespace dpipe {
namespace {

std::vector<StateTensor> Weights(const nn::ParameterSet& parameters) {
  std::vector<StateTensor> weights;
  for (nn::ParameterId id : parameters.trainable_ids()) {
    weights.push_back(ElementwiseState(kWeightKind, parameters.program().parameter(id).name,
                                       parameters.part(id), parameters.weight(id).master()));
  }
  return weights;
}

// A part that some process has: the tensor if it is this process, else where to request it.
struct Found {
  StateTensor state;
  TensorSpec spec;
  int process = 0;
  int index = 0;  // among that process's parts

  int64_t end() const { return state.begin + spec.shape.num_elements(); }
  bool IsOfSame(const Found& other) const {
    return state.kind == other.state.kind && state.parameter == other.state.parameter;
  }
  std::string name() const {
    return absl::StrCat("the state '", state.kind, "' of ", state.parameter);
  }
};

// Keeps one of each group of identical parts, and checks that the kept ones make up whole tensors.
// `parts` are sorted.
absl::StatusOr<std::vector<Found>> WithoutCopies(std::vector<Found> parts) {
  std::vector<Found> kept;
  for (auto part = parts.begin(); part != parts.end();) {
    const Found first = *part;
    int64_t covered = 0;
    for (; part != parts.end() && part->IsOfSame(first); ++part) {
      if (part->end() <= covered) continue;
      if (part->state.begin != covered) {
        return absl::InternalError(absl::StrCat(part->name(), " has a part that begins at element ",
                                                part->state.begin, "; expected ", covered));
      }
      covered = part->end();
      kept.push_back(*part);
    }
    if (covered != first.state.whole.num_elements()) {
      return absl::InternalError(absl::StrCat(first.name(), " has only ", covered, " elements of ",
                                              first.state.whole.num_elements()));
    }
  }
  return kept;
}

// Sorts parts by kind, parameter and begin. Of parts with the same begin, the longest comes first,
// then that of the lowest rank.
void Sort(std::vector<Found>* parts) {
  std::stable_sort(parts->begin(), parts->end(), [](const Found& a, const Found& b) {
    return std::make_tuple(a.state.kind, a.state.parameter, a.state.begin, -a.end()) <
           std::make_tuple(b.state.kind, b.state.parameter, b.state.begin, -b.end());
  });
}

// Tags of the state's tensors between processes, which are sent one after another.
constexpr int64_t kGatherTag = -1;
constexpr int64_t kRestoreTag = -2;
constexpr char kParts[] = "parts";
constexpr char kRequested[] = "wanted parts";
constexpr char kReady[] = "turn";
constexpr char kRequest[] = "wish";

StatePart PartMessage(const StateTensor& state) {
  StatePart message;
  message.set_kind(state.kind);
  message.set_parameter(state.parameter);
  for (int64_t dim : state.whole.dims()) message.add_whole(dim);
  message.set_begin(state.begin);
  for (int64_t dim : state.part.shape().dims()) message.add_shape(dim);
  message.set_dtype(static_cast<int>(state.part.dtype()));
  return message;
}

Found FromMessage(const StatePart& message, int process, int index) {
  Found found;
  found.state.kind = message.kind();
  found.state.parameter = message.parameter();
  found.state.whole = Shape(absl::MakeConstSpan(message.whole().data(), message.whole_size()));
  found.state.begin = message.begin();
  found.spec.shape = Shape(absl::MakeConstSpan(message.shape().data(), message.shape_size()));
  found.spec.dtype = static_cast<DType>(message.dtype());
  found.process = process;
  found.index = index;
  return found;
}

absl::Status EndedWithError() {
  return absl::FailedPreconditionError("this session ended with an error");
}

// Returns a tensor that a rank can send. Copies to its device if the tensor is on another GPU of
// its process, or on the host while the rank has a GPU.
Tensor Near(const Tensor& tensor, const std::shared_ptr<Device>& device) {
  const bool is_near = tensor.device() == device ||
                       (tensor.device()->has_host_memory() && device->has_host_memory());
  return is_near ? tensor : tensor.CopyTo(device);
}

// Returns whole tensors, joined from consecutive parts, in the host's memory.
std::map<std::string, Tensor> Joined(const SessionState& state) {
  std::map<std::string, Tensor> whole;
  for (const StateTensor& part : state.tensors) {
    Tensor& tensor = whole[part.parameter];
    if (!tensor.defined()) {
      const std::shared_ptr<Device>& device = part.part.device();
      tensor = Tensor::Empty(device->has_host_memory() ? device : Device::Cpu(), part.whole,
                             part.part.dtype());
    }
    tensor.Reshape({part.whole.num_elements()})
        .Slice(part.begin, part.end())
        .CopyFrom(part.part.Reshape({part.part.num_elements()}));
  }
  return whole;
}

}  // namespace

bool LocalSession::failed() const {
  return failed_ || (processes_ != nullptr && !processes_->failure().ok());
}

std::vector<StateTensor> LocalSession::OwnState(const SessionCommand::State& wanted) const {
  const std::string& kind = wanted.kind();
  std::vector<StateTensor> all;
  const auto add = [&](std::vector<StateTensor> states) {
    for (StateTensor& state : states) {
      if (!kind.empty() && state.kind != kind) continue;
      if (!wanted.parameter().empty() && state.parameter != wanted.parameter()) continue;
      all.push_back(std::move(state));
    }
  };
  for (const auto& rank : ranks_) {
    for (const auto& [parameters, optimizer] : rank->executor->optimizers()) {
      add(Weights(*parameters));
      // Avoids exporting the moments if only weights are requested.
      if (kind != kWeightKind) add(optimizer->State(kind));
    }
  }
  return all;
}

std::vector<StateTensor> LocalSession::OwnParameters() const {
  std::vector<StateTensor> all;
  const auto add = [&](const nn::ParameterSet& set, const std::vector<nn::ParameterId>& ids) {
    for (nn::ParameterId id : ids) {
      all.push_back(ElementwiseState(kWeightKind, set.program().parameter(id).name, set.part(id),
                                     set.weight(id).As(DType::kF32)));
    }
  };
  for (const auto& rank : ranks_) {
    for (const auto& set : rank->parameters) add(*set, set->ids());
    for (const auto& set : rank->on_demand) add(*set, set->kept_ids());
  }
  return all;
}

int64_t LocalSession::OwnUpdates() const {
  int64_t updates = 0;
  for (const auto& rank : ranks_) {
    for (const auto& [parameters, optimizer] : rank->executor->optimizers()) {
      updates = std::max(updates, optimizer->num_updates());
    }
  }
  return updates;
}

absl::StatusOr<SessionState> LocalSession::Gather(const SessionCommand& command,
                                                  std::vector<StateTensor> own) const {
  if (failed_ && processes_ != nullptr) return EndedWithError();
  absl::StatusOr<SessionState> state = GatherParts(command, std::move(own));
  // Followers that have sent their descriptions wait for the request.
  if (!state.ok() && processes_ != nullptr) processes_->Fail(state.status());
  return state;
}

absl::StatusOr<SessionState> LocalSession::GatherParts(const SessionCommand& command,
                                                       std::vector<StateTensor> own) const {
  SessionState state;
  state.next_step = next_step_;
  state.num_updates = OwnUpdates();
  std::vector<Found> parts;
  for (StateTensor& part : own) {
    const TensorSpec spec{part.part.shape(), part.part.dtype()};
    parts.push_back({std::move(part), spec, 0, 0});
  }
  const int num_processes = processes_ == nullptr ? 1 : processes_->num_processes();
  if (num_processes > 1) DPIPE_RETURN_IF_ERROR(processes_->Tell(command));
  for (int process = 1; process < num_processes; ++process) {
    StateParts theirs;
    DPIPE_RETURN_IF_ERROR(processes_->Receive(process, kParts, &theirs));
    state.num_updates = std::max(state.num_updates, theirs.num_updates());
    for (int i = 0; i < theirs.parts_size(); ++i) {
      parts.push_back(FromMessage(theirs.parts(i), process, i));
    }
  }
  const std::shared_ptr<Device> host = Device::Cpu();
  Sort(&parts);
  DPIPE_ASSIGN_OR_RETURN(parts, WithoutCopies(std::move(parts)));
  for (int process = 1; process < num_processes; ++process) {
    WantedParts wanted;
    for (const Found& part : parts) {
      if (part.process == process) wanted.add_index(part.index);
    }
    DPIPE_RETURN_IF_ERROR(processes_->Send(process, kRequested, wanted));
    for (Found& part : parts) {
      if (part.process != process) continue;
      DPIPE_ASSIGN_OR_RETURN(
          auto message, ranks_[0]->communicator->PostRecv(processes_->FirstRankOf(process),
                                                          kGatherTag, {part.spec}, part.name()));
      DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, message->Wait());
      // A GPU has no room for all ranks' state, and a rank's CPU device would cache the memory.
      part.state.part = tensors[0].CopyTo(host);
      part.state.is_private = true;
    }
  }
  // Tensors that arrived although the job has failed are invalid.
  if (num_processes > 1) DPIPE_RETURN_IF_ERROR(ranks_[0]->device->Synchronize());
  for (Found& part : parts) state.tensors.push_back(std::move(part.state));
  return state;
}

absl::Status LocalSession::FollowGather(std::vector<StateTensor> own) const {
  StateParts parts;
  parts.set_num_updates(OwnUpdates());
  for (const StateTensor& part : own) *parts.add_parts() = PartMessage(part);
  DPIPE_RETURN_IF_ERROR(processes_->Send(0, kParts, parts));
  WantedParts wanted;
  DPIPE_RETURN_IF_ERROR(processes_->Receive(0, kRequested, &wanted));
  for (int index : wanted.index()) {
    const StateTensor& part = own[index];
    // The next command comes when the leader has all of it, so it is not overwritten before.
    DPIPE_RETURN_IF_ERROR(ranks_[0]->communicator->Send(
        Rank(0), kGatherTag, {Near(part.part, ranks_[0]->device)},
        absl::StrCat("the state '", part.kind, "' of ", part.parameter)));
  }
  return absl::OkStatus();
}

absl::StatusOr<SessionState> LocalSession::State() const {
  if (failed_) return EndedWithError();
  SessionCommand command;
  command.mutable_state();
  return Gather(command, OwnState(command.state()));
}

absl::StatusOr<std::map<std::string, Tensor>> LocalSession::Collect(const std::string& kind) const {
  SessionCommand command;
  command.mutable_state()->set_kind(kind);
  DPIPE_ASSIGN_OR_RETURN(const SessionState state, Gather(command, OwnState(command.state())));
  return Joined(state);
}

absl::StatusOr<Tensor> LocalSession::CollectOne(const std::string& kind,
                                                const std::string& parameter) const {
  SessionCommand command;
  command.mutable_state()->set_kind(kind);
  command.mutable_state()->set_parameter(parameter);
  DPIPE_ASSIGN_OR_RETURN(const SessionState state, Gather(command, OwnState(command.state())));
  const std::map<std::string, Tensor> joined = Joined(state);
  if (!joined.empty()) return joined.begin()->second;
  return absl::NotFoundError(
      absl::StrCat("no rank has a state '", kind, "' of the parameter '", parameter, "'"));
}

absl::StatusOr<std::map<std::string, Tensor>> LocalSession::CollectParameters() const {
  SessionCommand command;
  command.set_parameters(true);
  DPIPE_ASSIGN_OR_RETURN(const SessionState state, Gather(command, OwnParameters()));
  return Joined(state);
}

absl::Status LocalSession::RestoreRank(int local, int64_t num_updates, const StateReader& read) {
  for (const auto& [parameters, optimizer] : ranks_[local]->executor->optimizers()) {
    for (const StateTensor& weight : Weights(*parameters)) DPIPE_RETURN_IF_ERROR(read(weight));
    for (nn::ParameterId id : parameters->trainable_ids()) {
      parameters->mutable_weight(id)->MarkUpdated();
    }
    for (const StateTensor& own : optimizer->State(/*kind=*/"")) {
      DPIPE_RETURN_IF_ERROR(read(own));
    }
    DPIPE_RETURN_IF_ERROR(optimizer->StateRestored(num_updates));
  }
  return absl::OkStatus();
}

absl::Status LocalSession::Restore(int64_t num_updates, const StateReader& read) {
  if (processes_ != nullptr) {
    SessionCommand command;
    command.mutable_restore()->set_num_updates(num_updates);
    DPIPE_RETURN_IF_ERROR(processes_->Tell(command));
  }
  absl::Status status = FirstError(
      RunOnAll(options_.workers, [&](int local) { return RestoreRank(local, num_updates, read); }));
  for (int p = 1; status.ok() && processes_ != nullptr && p < processes_->num_processes(); ++p) {
    status = ServeRestore(p, read);
  }
  if (!status.ok() && processes_ != nullptr) processes_->Fail(status);
  failed_ = failed_ || !status.ok();
  return status;
}

// Reads parts for a follower until it sends an empty request.
absl::Status LocalSession::ServeRestore(int process, const StateReader& read) const {
  DPIPE_RETURN_IF_ERROR(processes_->Send(process, kReady, StatePart()));
  while (true) {
    StatePart wish;
    DPIPE_RETURN_IF_ERROR(processes_->Receive(process, kRequest, &wish));
    if (wish.kind().empty()) return absl::OkStatus();
    Found found = FromMessage(wish, process, 0);
    found.state.part = Tensor::Empty(ranks_[0]->device, found.spec.shape, found.spec.dtype);
    DPIPE_RETURN_IF_ERROR(read(found.state));
    DPIPE_RETURN_IF_ERROR(ranks_[0]->communicator->Send(Rank(wish.rank()), kRestoreTag,
                                                        {found.state.part}, found.name()));
  }
}

// Tensors have the ranks' deadline, so the leader must reach this process before the first request:
// reading its own parts and other followers' may take it long.
absl::Status LocalSession::FollowRestore(int64_t num_updates) {
  StatePart turn;
  DPIPE_RETURN_IF_ERROR(processes_->Receive(0, kReady, &turn));
  absl::Mutex mutex;  // one request at a time
  DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(options_.workers, [&](int local) {
    return RestoreRank(local, num_updates, [&](const StateTensor& state) {
      absl::MutexLock lock(&mutex);
      return ReadFromLeader(local, state);
    });
  })));
  return processes_->Send(0, kRequest, StatePart());
}

absl::Status LocalSession::ReadFromLeader(int local, const StateTensor& state) {
  RankState& rank = *ranks_[local];
  StatePart wish = PartMessage(state);
  wish.set_rank(rank.rank.value());
  DPIPE_RETURN_IF_ERROR(processes_->Send(0, kRequest, wish));
  DPIPE_ASSIGN_OR_RETURN(auto message,
                         rank.communicator->PostRecv(
                             Rank(0), kRestoreTag, {{state.part.shape(), state.part.dtype()}},
                             absl::StrCat("the saved '", state.kind, "' of ", state.parameter)));
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Tensor> tensors, message->Wait());
  Tensor(state.part).CopyFrom(tensors[0]);
  return absl::OkStatus();
}

}  // namespace dpipe
