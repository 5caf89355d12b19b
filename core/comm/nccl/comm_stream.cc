#include "core/comm/nccl/comm_stream.h"

#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/running_clock.h"

namespace dpipe {
namespace {

// Few enough thread blocks that all three communicators of a rank always find room on the GPU
// beside each other: none then waits for another to leave it.
constexpr int kMostBlocks = 8;
// Looked for without sleeping: NCCL should not need so long to put a group on its stream, and a
// sleep takes longer than it says. Connecting does.
constexpr absl::Duration kSpin = absl::Microseconds(200);
constexpr absl::Duration kPoll = absl::Microseconds(50);
// A longer turn of a waiting loop is one in which this process did not run.
constexpr absl::Duration kLongestLap = absl::Milliseconds(100);

absl::Status TookTooLong(absl::Duration waited, const std::string& what) {
  return absl::DeadlineExceededError(
      absl::StrCat("waited ", absl::FormatDuration(waited), " for ", what));
}

}  // namespace

absl::Status CommStream::ToStatus(const NcclApi& api, ncclResult_t result,
                                  const std::string& call) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("NCCL, ", call, ": ", api.ncclGetErrorString(result)));
}

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
  config.maxCTAs = kMostBlocks;
  absl::MutexLock lock(&mutex_);
  if (closed_) return absl::CancelledError(absl::StrCat(name_, " was aborted"));
  DPIPE_RETURN_IF_ERROR(ToStatus(*api_,
                                 api_->ncclCommInitRankConfig(&comm_, size, unique, rank, &config),
                                 "ncclCommInitRankConfig"));
  const absl::Status settled = Settle(name_);
  if (settled.code() != absl::StatusCode::kDeadlineExceeded) return settled;
  return absl::DeadlineExceededError(absl::StrCat("rank ", rank, " waited ",
                                                  absl::FormatDuration(deadline_), " for all of ",
                                                  size, " ranks to join ", name_));
}

absl::Status CommStream::Settle(const std::string& what) {
  RunningClock clock(kLongestLap);
  absl::Duration waited;
  while (true) {
    if (comm_ == nullptr) return absl::CancelledError(absl::StrCat(name_, " was aborted"));
    ncclResult_t result = ncclSuccess;
    DPIPE_RETURN_IF_ERROR(
        ToStatus(*api_, api_->ncclCommGetAsyncError(comm_, &result), "ncclCommGetAsyncError"));
    if (result != ncclInProgress) return ToStatus(*api_, result, name_);
    waited += clock.Lap();
    if (posted_ != nullptr) posted_->under_way.waited = waited;
    if (waited > deadline_) return TookTooLong(deadline_, what);
    // Whoever aborts must get in.
    mutex_.Unlock();
    if (waited < kSpin) {
      std::this_thread::yield();
    } else {
      absl::SleepFor(kPoll);
    }
    mutex_.Lock();
  }
}

absl::StatusOr<std::shared_ptr<CommEvent>> CommStream::Record() {
  DPIPE_ASSIGN_OR_RETURN(const cuda::Event event,
                         driver_.CreateEvent(cuda::CudaDeviceOf(*device_).context()));
  auto recorded = std::make_shared<CommEvent>(&driver_, event);
  DPIPE_RETURN_IF_ERROR(driver_.Record(event, stream_));
  return recorded;
}

CommStream::Turn CommStream::TurnFor(const std::string& what) {
  return {comm_, stream_, [this, &what]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return Settle(what); }};
}

absl::Status CommStream::Post(Operation operation) {
  cuda::CudaDevice& device = cuda::CudaDeviceOf(*device_);
  DPIPE_ASSIGN_OR_RETURN(const cuda::Event event, driver_.CreateEvent(device.context()));
  const CommEvent made(&driver_, event);
  DPIPE_RETURN_IF_ERROR(driver_.Record(made.get(), device.stream()));
  auto posted = std::make_unique<Posted>();
  for (const Tensor& t : operation.tensors) posted->here.push_back(t.On(stream_device_));
  posted->under_way.what = operation.what;
  posted->operation = std::move(operation);
  absl::MutexLock lock(&mutex_);
  DPIPE_CHECK(posted_ == nullptr) << posted_->under_way.what << " is not finished";
  if (closed_) return absl::CancelledError(absl::StrCat(name_, " was aborted"));
  DPIPE_RETURN_IF_ERROR(driver_.Wait(stream_, made.get()));
  DPIPE_ASSIGN_OR_RETURN(posted->under_way.begin, Record());
  posted_ = std::move(posted);
  posted_->status = posted_->operation.enqueue(TurnFor(posted_->under_way.what));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<CommEvent>> CommStream::Finish() {
  std::unique_ptr<Posted> posted;  // lets go of tensors without the lock, after the end
  absl::MutexLock lock(&mutex_);
  DPIPE_CHECK(posted_ != nullptr);
  const std::string& what = posted_->under_way.what;
  if (posted_->status.ok()) posted_->status = Settle(what);
  if (posted_->status.ok() && posted_->operation.enqueue_after) {
    posted_->status = posted_->operation.enqueue_after(TurnFor(what));
  }
  posted = std::move(posted_);
  // After an error too the stream may have work that uses the tensors.
  DPIPE_ASSIGN_OR_RETURN(posted->under_way.end, Record());
  posted->under_way.waited = absl::ZeroDuration();
  under_way_.push_back(posted->under_way);
  DPIPE_RETURN_IF_ERROR(posted->status);
  return posted->under_way.end;
}

absl::StatusOr<std::shared_ptr<CommEvent>> CommStream::Enqueue(Operation operation) {
  DPIPE_RETURN_IF_ERROR(Post(std::move(operation)));
  return Finish();
}

absl::Status CommStream::Look(absl::Duration passed) {
  absl::MutexLock lock(&mutex_);
  const auto is_done = [&](const CommEvent& event) {
    // After an error of the GPU nothing is under way; the device tells it.
    return driver_.Done(event.get()).value_or(true);
  };
  while (!under_way_.empty() && is_done(*under_way_.front().end)) under_way_.pop_front();
  if (comm_ == nullptr) return absl::OkStatus();
  ncclResult_t result = ncclSuccess;
  api_->ncclCommGetAsyncError(comm_, &result);
  if (result != ncclSuccess && result != ncclInProgress) {
    return ToStatus(*api_, result, under_way_.empty() ? name_ : under_way_.front().what);
  }
  if (under_way_.empty()) return absl::OkStatus();
  UnderWay& current = under_way_.front();
  if (!is_done(*current.begin)) return absl::OkStatus();
  current.waited += passed;
  if (current.waited <= deadline_) return absl::OkStatus();
  return TookTooLong(deadline_, current.what);
}

bool CommStream::Idle() const {
  absl::MutexLock lock(&mutex_);
  return under_way_.empty();
}

std::optional<CommStream::Wait> CommStream::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  for (const UnderWay& one : under_way_) {
    if (driver_.Done(one.end->get()).value_or(true)) continue;
    return Wait{one.what, driver_.Done(one.begin->get()).value_or(true), one.waited};
  }
  if (posted_ != nullptr) {
    return Wait{posted_->under_way.what, /*begun=*/false, posted_->under_way.waited};
  }
  return std::nullopt;
}

void CommStream::Abort() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  if (comm_ == nullptr) return;
  // NCCL gives a thread that has no context one on GPU 0 when it has done.
  driver_.Within(cuda::CudaDeviceOf(*device_).context(),
                 [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { api_->ncclCommAbort(comm_); });
  comm_ = nullptr;
}

// A thread for each: NCCL tells the GPU to end what is under way before it waits for that.
void CommStream::AbortAll(absl::Span<CommStream* const> streams) {
  std::vector<std::thread> threads;
  for (CommStream* stream : streams) {
    if (stream != nullptr) threads.emplace_back([stream] { stream->Abort(); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dpipe
