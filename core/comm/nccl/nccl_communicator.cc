#include "core/comm/nccl/nccl_communicator.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/running_clock.h"
#include "core/comm/contract.h"
#include "core/comm/nccl/comm_stream.h"
#include "core/comm/nccl/exact_sums.h"
#include "core/comm/nccl/nccl_message.h"
#include "core/tensor/cuda/cuda_device.h"

namespace dpipe {
namespace {

class NcclCommunicator : public Communicator {
 public:
  explicit NcclCommunicator(NcclOptions options)
      : options_(std::move(options)), device_(cuda::CudaDeviceOf(*options_.device)) {
    DPIPE_CHECK(options_.peers != nullptr);
  }

  // What this rank has sent arrives, unless the job fails. Nobody looks any more when others part:
  // to NCCL a communicator that is gone is an error.
  ~NcclCommunicator() override {
    while (watch_.joinable() && failure().ok() && !Idle()) absl::SleepFor(absl::Milliseconds(1));
    stopping_ = true;
    if (watch_.joinable()) watch_.join();
    options_.peers->Leave();
    CommStream::AbortAll(Streams());
  }

  absl::Status Connect() {
    const absl::Status opened = Open();
    if (opened.ok()) {
      watch_ = std::thread([this] { Watch(); });
      return absl::OkStatus();
    }
    const absl::Status reason = Reason(opened);
    const absl::Status status(reason.code(),
                              absl::StrCat("rank ", rank().value(), ", connecting to the other ",
                                           size() - 1, " ranks by NCCL: ", reason.message()));
    Fail(status);
    return status;
  }

  Rank rank() const override { return options_.rank; }
  int size() const override { return options_.size; }

  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override;
  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override;
  absl::Status ExpectMessages(absl::Span<const Rank> to, absl::Span<const Rank> from) override;
  void BeginMessages() override { in_run_ = true; }
  absl::Status EndMessages() override {
    in_run_ = false;
    return PostRun();
  }
  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override;
  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override;
  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override;
  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override;

  void Abort(const absl::Status& status) override { Fail(status); }

  // The device's stream goes on when `event`, the end of `what`, is reached.
  absl::Status WaitFor(const CommEvent& event, const std::string& what) {
    DPIPE_RETURN_IF_ERROR(FailureOf(what));
    return device_.driver().Wait(device_.stream(), event.get());
  }
  // Of a message whose run has not ended, or has failed.
  absl::Status NotPosted(const std::string& what) const {
    const absl::Status failed = FailureOf(what);
    return failed.ok() ? Own(absl::FailedPreconditionError(absl::StrCat("has not posted ", what)))
                       : failed;
  }
  cuda::CudaDevice& device() { return device_; }

 private:
  absl::Status Open();
  bool Idle() const { return up_->Idle() && down_->Idle() && collectives_->Idle(); }
  absl::Status failure() const {
    absl::MutexLock lock(&mutex_);
    return failure_;
  }
  // The same, to whoever comes with `what`: where nothing was waited for when others failed, this
  // is what the rank would have waited for.
  absl::Status FailureOf(const std::string& what) const;
  absl::Status Own(const absl::Status& status) const {
    return absl::Status(status.code(),
                        absl::StrCat("rank ", rank().value(), " ", status.message()));
  }
  absl::Status InVain(const std::string& what, absl::Duration waited,
                      const absl::Status& reason) const {
    return Own(absl::Status(
        reason.code(),
        absl::StrCat("waited ", absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))),
                     " for ", what, ": ", reason.message())));
  }
  // Why something has failed with `status`: the job has, or that itself.
  absl::Status Reason(const absl::Status& status);
  // The same, of what has failed while `what` was enqueued.
  absl::Status Explain(const absl::Status& status, const std::string& what);
  absl::StatusOr<std::shared_ptr<CommEvent>> Start(CommStream* stream,
                                                   CommStream::Operation operation);
  std::vector<CommStream*> Streams() const { return {up_.get(), down_.get(), collectives_.get()}; }
  // Messages that go over one communicator as one NCCL group, and where the event of their end is
  // to come.
  struct Group {
    std::vector<NcclMessage> messages;
    std::shared_ptr<std::shared_ptr<CommEvent>> end =
        std::make_shared<std::shared_ptr<CommEvent>>();
  };
  CommStream::Operation OperationOf(const Group& group) const;
  // Adds a message to the run; one posted outside of runs is a run.
  Group& Add(std::vector<Group>* run, NcclMessage message);
  absl::Status PostRun();
  absl::Status PostGroups(const Group* up, const Group* down);  // null: there is none
  // Memory for a reduction, of that size or more.
  Tensor ReductionRoom(int64_t size_bytes);
  int64_t ChunkBytes(NodeLayout layout) const {
    return options_.chunk_bytes > 0 ? options_.chunk_bytes : ChunkBytesFor(layout);
  }
  StartedCollective StartReduction(ExactReduction reduction, const std::string& what);
  NcclCall CallOf(const CommStream::Turn& turn) const {
    return {options_.api, &device_.driver(), turn};
  }
  // This rank has failed.
  void Fail(const absl::Status& status);
  // Others have.
  void HearFailure(const absl::Status& status);
  // The first counts. Whatever is under way ends; `explained`: `status` says what this rank did.
  bool End(const absl::Status& status, bool explained);
  void Watch();

  const NcclOptions options_;
  cuda::CudaDevice& device_;
  std::unique_ptr<CommStream> up_, down_, collectives_;
  bool in_run_ = false;                   // of messages
  std::vector<Group> up_run_, down_run_;  // not posted yet
  std::optional<Tensor> reduction_room_;  // of all, which come one after another
  mutable absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  bool explained_ ABSL_GUARDED_BY(mutex_) = false;  // what this rank did is said in failure_
  std::atomic<bool> stopping_{false};
  std::thread watch_;
};

class NcclRecv : public PendingRecv {
 public:
  // `end` is there when the run of messages has ended.
  NcclRecv(NcclCommunicator* communicator, std::string what, std::vector<Tensor> tensors,
           std::shared_ptr<const std::shared_ptr<CommEvent>> end)
      : communicator_(communicator),
        what_(std::move(what)),
        tensors_(std::move(tensors)),
        end_(std::move(end)) {}

  absl::StatusOr<std::vector<Tensor>> Wait() override {
    if (*end_ == nullptr) return communicator_->NotPosted(what_);
    DPIPE_RETURN_IF_ERROR(communicator_->WaitFor(**end_, what_));
    return std::move(tensors_);
  }

 private:
  NcclCommunicator* const communicator_;
  const std::string what_;
  std::vector<Tensor> tensors_;
  const std::shared_ptr<const std::shared_ptr<CommEvent>> end_;
};

// The end of an operation on its stream, in its device's time.
class OperationEnd : public DeviceEvent {
 public:
  OperationEnd(cuda::CudaDevice* device, std::shared_ptr<CommEvent> event)
      : device_(device), event_(std::move(event)) {}
  bool done() const override { return device_->driver().Done(event_->get()).value_or(true); }
  Nanos time_ns() const override { return device_->TimeOf(event_->get()); }

 private:
  cuda::CudaDevice* const device_;
  const std::shared_ptr<CommEvent> event_;
};

class NcclCollective : public PendingCollective {
 public:
  NcclCollective(NcclCommunicator* communicator, std::string what, std::shared_ptr<CommEvent> end)
      : communicator_(communicator), what_(std::move(what)), end_(std::move(end)) {}

  // On return the device's stream has been told to wait.
  absl::Status Wait() override {
    if (end_ != nullptr) DPIPE_RETURN_IF_ERROR(communicator_->WaitFor(*end_, what_));
    reached_ = communicator_->device().RecordEvent();
    return absl::OkStatus();
  }
  Nanos end_ns() const override {
    communicator_->device().Synchronize().IgnoreError();
    return end()->time_ns();
  }
  std::shared_ptr<DeviceEvent> end() const override {
    if (end_ == nullptr) return reached_;
    return std::make_shared<OperationEnd>(&communicator_->device(), end_);
  }

 private:
  NcclCommunicator* const communicator_;
  const std::string what_;
  const std::shared_ptr<CommEvent> end_;
  std::shared_ptr<DeviceEvent> reached_;
};

// Whoever may tell this rank of a failure finds all that is to be aborted then.
absl::Status NcclCommunicator::Open() {
  const auto make = [this](const char* what, std::unique_ptr<CommStream>* stream) -> absl::Status {
    DPIPE_ASSIGN_OR_RETURN(
        *stream, CommStream::Create(options_.api, options_.device, what, options_.deadline));
    return absl::OkStatus();
  };
  DPIPE_RETURN_IF_ERROR(make("messages to higher ranks", &up_));
  DPIPE_RETURN_IF_ERROR(make("messages to lower ranks", &down_));
  DPIPE_RETURN_IF_ERROR(make("collectives", &collectives_));
  options_.peers->Listen([this](const absl::Status& status) { HearFailure(status); });
  DPIPE_RETURN_IF_ERROR(up_->Connect(options_.ids.up, rank().value(), size()));
  DPIPE_RETURN_IF_ERROR(down_->Connect(options_.ids.down, rank().value(), size()));
  return collectives_->Connect(options_.ids.collectives, rank().value(), size());
}

absl::Status NcclCommunicator::FailureOf(const std::string& what) const {
  absl::MutexLock lock(&mutex_);
  return failure_.ok() || explained_ ? failure_ : InVain(what, absl::ZeroDuration(), failure_);
}

absl::Status NcclCommunicator::Reason(const absl::Status& status) {
  if (absl::IsUnavailable(status) && failure().ok()) {
    const absl::Status cause = options_.peers->Cause();
    if (!cause.ok()) HearFailure(cause);
  }
  const absl::Status reason = failure();
  return reason.ok() ? status : reason;
}

absl::Status NcclCommunicator::Explain(const absl::Status& status, const std::string& what) {
  const absl::Status reason = Reason(Own(status)), failed = FailureOf(what);
  return failed.ok() ? reason : failed;
}

absl::StatusOr<std::shared_ptr<CommEvent>> NcclCommunicator::Start(
    CommStream* stream, CommStream::Operation operation) {
  const std::string what = operation.what;
  DPIPE_RETURN_IF_ERROR(FailureOf(what));
  absl::StatusOr<std::shared_ptr<CommEvent>> end = stream->Enqueue(std::move(operation));
  if (end.ok()) return end;
  return Explain(end.status(), what);
}

absl::Status NcclCommunicator::Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                                    const std::string& what) {
  DPIPE_RETURN_IF_ERROR(CheckPeer(rank(), size(), to, what));
  Add(rank() < to ? &up_run_ : &down_run_,
      MessageTo(to.value(), absl::StrCat(what, " to rank ", to.value()), std::move(tensors)));
  return in_run_ ? absl::OkStatus() : PostRun();
}

absl::StatusOr<std::unique_ptr<PendingRecv>> NcclCommunicator::PostRecv(
    Rank from, int64_t tag, std::vector<TensorSpec> specs, const std::string& what) {
  DPIPE_RETURN_IF_ERROR(CheckPeer(rank(), size(), from, what));
  const Group& group =
      Add(from < rank() ? &up_run_ : &down_run_,
          MessageFrom(from.value(), absl::StrCat(what, " from rank ", from.value()), specs,
                      options_.device));
  auto pending = std::make_unique<NcclRecv>(this, group.messages.back().what,
                                            group.messages.back().tensors, group.end);
  if (!in_run_) DPIPE_RETURN_IF_ERROR(PostRun());
  return std::unique_ptr<PendingRecv>(std::move(pending));
}

// A second message from one rank to another begins a new group, as VerifyPlan has it.
NcclCommunicator::Group& NcclCommunicator::Add(std::vector<Group>* run, NcclMessage message) {
  const auto is_alike = [&](const NcclMessage& other) {
    return other.peer == message.peer && other.sends == message.sends;
  };
  if (run->empty() || absl::c_any_of(run->back().messages, is_alike)) run->emplace_back();
  run->back().messages.push_back(std::move(message));
  return run->back();
}

// A message each way that one will be sent, in a single run: NCCL connects a group's ranks all
// together, which ranks that come to their first messages one after another might wait for in a
// circle.
absl::Status NcclCommunicator::ExpectMessages(absl::Span<const Rank> to,
                                              absl::Span<const Rank> from) {
  const TensorSpec spec{{1}, DType::kF32};
  const Tensor nothing = Tensor::Zeros(options_.device, spec.shape, spec.dtype);
  BeginMessages();
  for (Rank peer : to) DPIPE_RETURN_IF_ERROR(Send(peer, 0, {nothing}, "the connection"));
  for (Rank peer : from) {
    DPIPE_RETURN_IF_ERROR(PostRecv(peer, 0, {spec}, "the connection").status());
  }
  return EndMessages();
}

CommStream::Operation NcclCommunicator::OperationOf(const Group& group) const {
  const auto name = [](std::string* out, const NcclMessage& message) { *out += message.what; };
  CommStream::Operation operation{absl::StrJoin(group.messages, " and ", name),
                                  TensorsOf(group.messages)};
  operation.enqueue = [=](const CommStream::Turn& turn) {
    return EnqueueMessages(CallOf(turn), group.messages);
  };
  operation.enqueue_after = [=](const CommStream::Turn& turn) {
    return EnqueueUnpacking(CallOf(turn), group.messages);
  };
  return operation;
}

absl::Status NcclCommunicator::PostRun() {
  const std::vector<Group> up = std::exchange(up_run_, {}), down = std::exchange(down_run_, {});
  for (size_t i = 0; i < std::max(up.size(), down.size()); ++i) {
    DPIPE_RETURN_IF_ERROR(
        PostGroups(i < up.size() ? &up[i] : nullptr, i < down.size() ? &down[i] : nullptr));
  }
  return absl::OkStatus();
}

// Both communicators are called before either is waited for: ranks may have to answer on both
// before either gets on.
absl::Status NcclCommunicator::PostGroups(const Group* up, const Group* down) {
  struct Part {
    CommStream* stream;
    const Group* group;
    std::string what;
    absl::Status posted;
  };
  std::vector<Part> parts;
  if (up != nullptr) parts.push_back({up_.get(), up, "", {}});
  if (down != nullptr) parts.push_back({down_.get(), down, "", {}});
  for (Part& part : parts) {
    CommStream::Operation operation = OperationOf(*part.group);
    part.what = operation.what;
    part.posted = FailureOf(part.what);
    if (part.posted.ok()) part.posted = part.stream->Post(std::move(operation));
  }
  absl::Status status;
  for (const Part& part : parts) {
    using End = absl::StatusOr<std::shared_ptr<CommEvent>>;
    End end = part.posted.ok() ? part.stream->Finish() : End(part.posted);
    if (end.ok()) {
      *part.group->end = *std::move(end);
    } else if (status.ok()) {
      status = Explain(end.status(), part.what);
    }
  }
  return status;
}

// Larger than ever before, or as it is: reductions come one after another.
Tensor NcclCommunicator::ReductionRoom(int64_t size_bytes) {
  const int64_t count = size_bytes / static_cast<int64_t>(sizeof(float));
  if (!reduction_room_.has_value() || reduction_room_->num_elements() < count) {
    reduction_room_.reset();
    reduction_room_ = Tensor::Empty(options_.device, {count}, DType::kF32);
  }
  return *reduction_room_;
}

Communicator::StartedCollective NcclCommunicator::StartReduction(ExactReduction reduction,
                                                                 const std::string& what) {
  const Tensor room = ReductionRoom(RoomBytes(reduction));
  CommStream::Operation operation{what, reduction.tensors};
  operation.tensors.insert(operation.tensors.end(), reduction.sums.begin(), reduction.sums.end());
  operation.tensors.push_back(room);
  operation.enqueue = [this, room, reduction = std::move(reduction)](const CommStream::Turn& turn) {
    return EnqueueReduction(CallOf(turn), reduction, room);
  };
  DPIPE_ASSIGN_OR_RETURN(std::shared_ptr<CommEvent> end,
                         Start(collectives_.get(), std::move(operation)));
  return std::make_unique<NcclCollective>(this, what, std::move(end));
}

Communicator::StartedCollective NcclCommunicator::StartAllReduceSum(absl::Span<const Rank> group,
                                                                    std::vector<Tensor> tensors,
                                                                    const std::string& what) {
  const RankGroup ranks = GroupOf(rank(), group, what);
  if (ranks.size() == 1) return std::make_unique<NcclCollective>(this, what, nullptr);
  const NodeLayout layout = LayoutOf(ranks, options_.nodes);
  return StartReduction(AllReduceOf(ranks, layout, ChunkBytes(layout), std::move(tensors)), what);
}

Communicator::StartedCollective NcclCommunicator::StartReduceScatterSum(
    absl::Span<const Rank> group, std::vector<Tensor> full, std::vector<Tensor> shards,
    const std::string& what) {
  const RankGroup ranks = GroupOf(rank(), group, what);
  const NodeLayout layout = LayoutOf(ranks, options_.nodes);
  return StartReduction(
      ReduceScatterOf(ranks, layout, ChunkBytes(layout), std::move(full), std::move(shards)), what);
}

Communicator::StartedCollective NcclCommunicator::StartAllGather(absl::Span<const Rank> group,
                                                                 std::vector<Tensor> shards,
                                                                 std::vector<Tensor> full,
                                                                 const std::string& what) {
  DPIPE_CHECK_EQ(shards.size(), full.size()) << what;
  const RankGroup ranks = GroupOf(rank(), group, what);
  const NodeLayout layout = LayoutOf(ranks, options_.nodes);
  CommStream::Operation operation{what, full};
  operation.tensors.insert(operation.tensors.end(), shards.begin(), shards.end());
  operation.enqueue = [=](const CommStream::Turn& turn) {
    return EnqueueAllGather(CallOf(turn), ranks, layout, shards, full);
  };
  DPIPE_ASSIGN_OR_RETURN(std::shared_ptr<CommEvent> end,
                         Start(collectives_.get(), std::move(operation)));
  return std::make_unique<NcclCollective>(this, what, std::move(end));
}

// Every rank gets every rank's values, and adds them up itself. As bytes, in a tensor of int32.
absl::Status NcclCommunicator::AllReduceSum(absl::Span<double> values, const std::string& what) {
  if (size() == 1) return absl::OkStatus();
  const int64_t row_bytes = values.size() * sizeof(double);
  const Tensor rows = Tensor::Empty(options_.device,
                                    {size(), 2 * static_cast<int64_t>(values.size())}, DType::kI32);
  const auto row = [&](int r) { return static_cast<char*>(rows.raw_data()) + r * row_bytes; };
  device_.CopyFromHost(row(rank().value()), values.data(), row_bytes);
  CommStream::Operation operation{what, {rows}};
  operation.enqueue = [&](const CommStream::Turn& turn) {
    const NcclCall call = CallOf(turn);
    return Grouped(call, [&]() -> absl::Status {
      for (int peer = 0; peer < size(); ++peer) {
        if (peer == rank().value()) continue;
        DPIPE_RETURN_IF_ERROR(SendBytes(call, row(rank().value()), row_bytes, peer));
        DPIPE_RETURN_IF_ERROR(RecvBytes(call, row(peer), row_bytes, peer));
      }
      return absl::OkStatus();
    });
  };
  DPIPE_ASSIGN_OR_RETURN(const std::shared_ptr<CommEvent> end,
                         Start(collectives_.get(), std::move(operation)));
  DPIPE_RETURN_IF_ERROR(WaitFor(*end, what));
  std::vector<double> all(values.size() * size());
  device_.CopyToHost(all.data(), rows.raw_data(), row_bytes * size());
  DPIPE_RETURN_IF_ERROR(FailureOf(what));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 0;
    for (int r = 0; r < size(); ++r) values[i] += all[r * values.size() + i];
  }
  return absl::OkStatus();
}

void NcclCommunicator::Fail(const absl::Status& status) {
  if (End(status, /*explained=*/true)) options_.peers->Tell(status);
}

void NcclCommunicator::HearFailure(const absl::Status& status) { End(status, /*explained=*/false); }

bool NcclCommunicator::End(const absl::Status& status, bool explained) {
  const std::vector<CommStream*> streams = Streams();
  absl::Status kept = status;
  {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return false;
    // What the GPU waits for, whose thread may be at a later instruction; of what it will wait for,
    // the first.
    std::optional<CommStream::Wait> longest;
    for (CommStream* stream : streams) {
      std::optional<CommStream::Wait> wait;
      if (stream != nullptr) wait = stream->Close();
      if (!wait.has_value()) continue;
      if (longest.has_value() &&
          std::pair(wait->begun, wait->waited) <= std::pair(longest->begun, longest->waited)) {
        continue;
      }
      longest = std::move(wait);
    }
    if (!explained && longest.has_value()) {
      kept = InVain(longest->what, longest->waited, status);
      explained = true;
    }
    failure_ = kept;
    explained_ = explained;
  }
  device_.Keep(kept);
  // Nobody waits for it any more, on the GPU or here.
  CommStream::AbortAll(streams);
  return true;
}

void NcclCommunicator::Watch() {
  device_.driver().MakeCurrent({device_.context().gpu, 0, nullptr}).IgnoreError();
  const absl::Duration interval =
      std::max(absl::Milliseconds(1), std::min(absl::Milliseconds(50), options_.deadline / 32));
  RunningClock clock(2 * interval);
  while (!stopping_) {
    // Not a wait of the mutex's, which ends at a time of day.
    absl::SleepFor(interval);
    const absl::Duration passed = clock.Lap();
    for (CommStream* stream : Streams()) {
      const absl::Status status = stream->Look(passed);
      if (status.ok()) continue;
      Fail(Reason(Own(status)));
    }
  }
}

}  // namespace

absl::StatusOr<NcclIds> NewNcclIds(const NcclApi& api) {
  NcclIds ids;
  for (std::string* id : {&ids.up, &ids.down, &ids.collectives}) {
    ncclUniqueId unique;
    DPIPE_RETURN_IF_ERROR(
        CommStream::ToStatus(api, api.ncclGetUniqueId(&unique), "ncclGetUniqueId"));
    id->assign(reinterpret_cast<const char*>(&unique), sizeof(unique));
  }
  return ids;
}

absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclCommunicator(NcclOptions options) {
  const cuda::Context& context = cuda::CudaDeviceOf(*options.device).context();
  if (context.green != nullptr && options.size > 1) {
    const absl::Status refused = absl::FailedPreconditionError(
        absl::StrCat(options.device->name(),
                     " is a virtual GPU: NCCL refuses two ranks on one GPU, and ranks "
                     "of one process need it not"));
    options.peers->Tell(refused);
    return refused;
  }
  auto communicator = std::make_unique<NcclCommunicator>(std::move(options));
  DPIPE_RETURN_IF_ERROR(communicator->Connect());
  return std::unique_ptr<Communicator>(std::move(communicator));
}

}  // namespace dpipe
