#include "core/comm/nccl/comm_stream.h"

#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/running_clock.h"
#include "core/comm/nccl/nccl_call.h"

namespace dpipe {

namespace {

// Few enough thread blocks for all three communicators of a rank to fit on the GPU at the same
// time, so that none waits for another to finish.
constexpr int kMaxBlocks = 8;
// Spin for this long before sleeping: NCCL should enqueue a group on its stream sooner, and a sleep
// takes longer than requested. Connecting takes longer.
constexpr absl::Duration kSpin = absl::Microseconds(200);
constexpr absl::Duration kPoll = absl::Microseconds(50);
// A longer iteration of a waiting loop means that this process did not run.
constexpr absl::Duration kMaxLap = absl::Milliseconds(100);

absl::Status Aborted(const std::string& name) {
  return absl::CancelledError(absl::StrCat(name, " was aborted"));
}

absl::Status TookTooLong(absl::Duration waited, const std::string& what) {
  return absl::DeadlineExceededError(
      absl::StrCat("waited ", absl::FormatDuration(waited), " for ", what));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CommStream>> CommStream::Create(const NcclApi* api,
                                                               std::shared_ptr<Device> device,
                                                               const std::string& name,
                                                               absl::Duration deadline) {
  const cuda::CudaDevice& cuda = cuda::CudaDeviceOf(*device);
  DPIPE_ASSIGN_OR_RETURN(
      std::shared_ptr<cuda::CudaDevice> stream_device,
      cuda::CudaDevice::Create(&cuda.driver(), cuda.gpu(), cuda.context(), cuda.name()));
  return std::unique_ptr<CommStream>(
      new CommStream(api, std::move(device), std::move(stream_device), name, deadline));
}

CommStream::CommStream(const NcclApi* api, std::shared_ptr<Device> device,
                       std::shared_ptr<cuda::CudaDevice> stream_device, std::string name,
                       absl::Duration deadline)
    : api_(api),
      device_(std::move(device)),
      stream_device_(std::move(stream_device)),
      driver_(stream_device_->driver()),
      stream_(stream_device_->stream()),
      name_(std::move(name)),
      deadline_(deadline) {}

CommStream::~CommStream() { Abort(); }

absl::Status CommStream::Connect(const std::string& id, int rank, int size) {
  ncclUniqueId unique;
  DPIPE_CHECK_EQ(id.size(), sizeof(unique));
  std::memcpy(&unique, id.data(), sizeof(unique));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.maxCTAs = kMaxBlocks;
  {
    absl::MutexLock lock(&mutex_);
    if (closed_) return Aborted(name_);
    DPIPE_RETURN_IF_ERROR(
        NcclStatus(*api_, api_->ncclCommInitRankConfig(&comm_, size, unique, rank, &config),
                   "ncclCommInitRankConfig"));
  }
  const absl::Status settled = Settle(name_);
  if (settled.code() != absl::StatusCode::kDeadlineExceeded) return settled;
  return absl::DeadlineExceededError(absl::StrCat("rank ", rank, " waited ",
                                                  absl::FormatDuration(deadline_), " for all of ",
                                                  size, " ranks to join ", name_));
}

// ncclCommGetAsyncError also advances NCCL's background work, and returns its error.
absl::StatusOr<bool> CommStream::IsSettled(const std::string& what) {
  ncclResult_t result = ncclSuccess;
  DPIPE_RETURN_IF_ERROR(
      NcclStatus(*api_, api_->ncclCommGetAsyncError(comm_, &result), "ncclCommGetAsyncError"));
  DPIPE_RETURN_IF_ERROR(NcclStatus(*api_, result, what));
  return result != ncclInProgress;
}

// The lock is released between two checks, so that another thread can abort.
absl::Status CommStream::Settle(const std::string& what) {
  RunningClock clock(kMaxLap);
  absl::Duration waited;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (posted_ != nullptr) posted_->settling = false;
      if (comm_ == nullptr) return Aborted(name_);
      DPIPE_ASSIGN_OR_RETURN(const bool settled, IsSettled(what));
      if (settled) return absl::OkStatus();
      waited += clock.Lap();
      if (posted_ != nullptr) {
        posted_->settling = true;
        posted_->under_way.waited = waited;
      }
    }
    if (waited > deadline_) return TookTooLong(deadline_, what);
    if (waited < kSpin) {
      std::this_thread::yield();
    } else {
      absl::SleepFor(kPoll);
    }
  }
}

absl::StatusOr<std::shared_ptr<CommEvent>> CommStream::Record() {
  DPIPE_ASSIGN_OR_RETURN(const cuda::Event event,
                         driver_.CreateEvent(cuda::CudaDeviceOf(*device_).context()));
  auto recorded = std::make_shared<CommEvent>(&driver_, event);
  DPIPE_RETURN_IF_ERROR(driver_.Record(event, stream_));
  return recorded;
}

NcclCall CommStream::CallFor(const std::string& what) {
  NcclCall call{api_, &driver_, nullptr, stream_, nullptr, nullptr};
  {
    absl::MutexLock lock(&mutex_);
    call.comm = comm_;
  }
  call.exclusively = [this](const std::function<absl::Status()>& calls) {
    absl::MutexLock lock(&mutex_);
    return closed_ ? Aborted(name_) : calls();
  };
  call.settle = [this, &what] { return Settle(what); };
  return call;
}

absl::Status CommStream::Post(Operation operation) {
  cuda::CudaDevice& device = cuda::CudaDeviceOf(*device_);
  DPIPE_ASSIGN_OR_RETURN(const cuda::Event event, driver_.CreateEvent(device.context()));
  const CommEvent made(&driver_, event);
  DPIPE_RETURN_IF_ERROR(driver_.Record(made.get(), device.stream()));
  auto owned = std::make_unique<Posted>();
  Posted* const posted = owned.get();
  posted->here = Tensor::ViewsOn(operation.tensors, stream_device_);
  posted->under_way.what = operation.what;
  posted->operation = std::move(operation);
  {
    absl::MutexLock lock(&mutex_);
    DPIPE_CHECK(posted_ == nullptr) << posted_->under_way.what << " is not finished";
    if (closed_) return Aborted(name_);
  }
  DPIPE_RETURN_IF_ERROR(driver_.Wait(stream_, made.get()));
  DPIPE_ASSIGN_OR_RETURN(posted->under_way.begin, Record());
  {
    absl::MutexLock lock(&mutex_);
    posted_ = std::move(owned);
  }
  posted->status = posted->operation.enqueue(CallFor(posted->under_way.what));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<CommEvent>> CommStream::Finish() {
  Posted* posted;
  {
    absl::MutexLock lock(&mutex_);
    DPIPE_CHECK(posted_ != nullptr);
    posted = posted_.get();
  }
  const std::string& what = posted->under_way.what;
  if (posted->status.ok()) posted->status = Settle(what);
  if (posted->status.ok() && posted->operation.enqueue_after) {
    posted->status = posted->operation.enqueue_after(CallFor(what));
  }
  // Even after an error the stream may have work that uses the tensors.
  absl::StatusOr<std::shared_ptr<CommEvent>> end = Record();
  std::unique_ptr<Posted> finished;  // releases the tensors after the lock and the end
  absl::MutexLock lock(&mutex_);
  finished = std::move(posted_);
  if (!finished->status.ok() && comm_ != nullptr) {
    unsettled_.insert(unsettled_.end(), finished->here.begin(), finished->here.end());
  }
  if (end.ok()) {
    in_flight_.push_back({finished->under_way.what, finished->under_way.begin, *end});
  }
  DPIPE_RETURN_IF_ERROR(finished->status);
  return end;
}

absl::StatusOr<std::shared_ptr<CommEvent>> CommStream::Enqueue(Operation operation) {
  DPIPE_RETURN_IF_ERROR(Post(std::move(operation)));
  return Finish();
}

// After an error of the GPU nothing is in flight; the device reports the error.
bool CommStream::IsReached(const CommEvent& event) const {
  return driver_.Done(event.get()).value_or(true);
}

absl::Status CommStream::CheckProgress(absl::Duration passed) {
  absl::MutexLock lock(&mutex_);
  while (!in_flight_.empty() && IsReached(*in_flight_.front().end)) in_flight_.pop_front();
  if (comm_ == nullptr) return absl::OkStatus();
  DPIPE_RETURN_IF_ERROR(IsSettled(in_flight_.empty() ? name_ : in_flight_.front().what).status());
  InFlight* const current = Current();
  if (current == nullptr || !IsReached(*current->begin)) return absl::OkStatus();
  current->waited += passed;
  if (current->waited <= deadline_) return absl::OkStatus();
  return TookTooLong(deadline_, current->what);
}

// An operation that is being enqueued counts too. Its thread measures how long NCCL takes (Settle),
// but not how long the GPU's queue is too full for the next piece of work.
CommStream::InFlight* CommStream::Current() {
  if (!in_flight_.empty()) return &in_flight_.front();
  return posted_ != nullptr && !posted_->settling ? &posted_->under_way : nullptr;
}

bool CommStream::Idle() const {
  absl::MutexLock lock(&mutex_);
  return posted_ == nullptr && (in_flight_.empty() || IsReached(*in_flight_.back().end));
}

std::optional<CommStream::Wait> CommStream::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  for (const InFlight& one : in_flight_) {
    if (!IsReached(*one.end)) return Wait{one.what, IsReached(*one.begin), one.waited};
  }
  if (posted_ != nullptr) {
    return Wait{posted_->under_way.what, /*begun=*/false, posted_->under_way.waited};
  }
  return std::nullopt;
}

void CommStream::Abort() {
  std::vector<Tensor> unsettled;  // releases them without the lock
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  if (comm_ == nullptr) return;
  // Afterwards, NCCL makes GPU 0's context current on a thread that had none. An error can be
  // ignored, because the communicator is not used again.
  driver_.Within(cuda::CudaDeviceOf(*device_).context(),
                 [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { api_->ncclCommAbort(comm_); });
  comm_ = nullptr;
  unsettled.swap(unsettled_);
}

// One thread each: NCCL tells the GPU to end the work in flight, then waits for it.
void CommStream::AbortAll(absl::Span<CommStream* const> streams) {
  std::vector<std::thread> threads;
  for (CommStream* stream : streams) {
    if (stream != nullptr) threads.emplace_back([stream] { stream->Abort(); });
  }
  for (std::thread& thread : threads) thread.join();
}

absl::StatusOr<NcclIds> NewNcclIds(const NcclApi& api) {
  NcclIds ids;
  for (std::string* id : {&ids.up, &ids.down, &ids.collectives}) {
    ncclUniqueId unique;
    DPIPE_RETURN_IF_ERROR(NcclStatus(api, api.ncclGetUniqueId(&unique), "ncclGetUniqueId"));
    id->assign(reinterpret_cast<const char*>(&unique), sizeof(unique));
  }
  return ids;
}

absl::StatusOr<RankStreams> RankStreams::Create(const NcclApi* api,
                                                const std::shared_ptr<Device>& device,
                                                absl::Duration deadline) {
  RankStreams streams;
  DPIPE_ASSIGN_OR_RETURN(streams.up,
                         CommStream::Create(api, device, "messages to higher ranks", deadline));
  DPIPE_ASSIGN_OR_RETURN(streams.down,
                         CommStream::Create(api, device, "messages to lower ranks", deadline));
  DPIPE_ASSIGN_OR_RETURN(streams.collectives,
                         CommStream::Create(api, device, "collectives", deadline));
  return streams;
}

absl::Status RankStreams::Connect(const NcclIds& ids, Rank rank, int size) const {
  DPIPE_RETURN_IF_ERROR(up->Connect(ids.up, rank.value(), size));
  DPIPE_RETURN_IF_ERROR(down->Connect(ids.down, rank.value(), size));
  return collectives->Connect(ids.collectives, rank.value(), size);
}

}  // namespace dpipe
