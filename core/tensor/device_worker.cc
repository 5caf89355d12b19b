#include "core/tensor/device_worker.h"

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

// The job ends when the work that it enqueued has finished.
absl::Status RunGuarded(const std::function<absl::Status()>& job, Device& device) {
  try {
    DPIPE_RETURN_IF_ERROR(job());
    return device.Synchronize();
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("exception: ", e.what()));
  } catch (...) {
    return absl::InternalError("exception of unknown type");
  }
}

}  // namespace

DeviceWorker::DeviceWorker(std::shared_ptr<Device> device)
    : device_(std::move(device)), thread_([this] { Loop(); }) {}

DeviceWorker::~DeviceWorker() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void DeviceWorker::Start(std::function<absl::Status()> job) {
  absl::MutexLock lock(&mutex_);
  DPIPE_CHECK(!busy_) << device_->name() << " already has a job";
  job_ = std::move(job);
  busy_ = true;
}

absl::Status DeviceWorker::Wait() {
  absl::MutexLock lock(&mutex_);
  auto idle = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !busy_; };
  mutex_.Await(absl::Condition(&idle));
  return result_;
}

void DeviceWorker::Loop() {
  const absl::Status bound = device_->BindThread();
  while (true) {
    std::function<absl::Status()> job;
    {
      absl::MutexLock lock(&mutex_);
      auto wake = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return busy_ || stopping_; };
      mutex_.Await(absl::Condition(&wake));
      if (stopping_) return;
      job = std::move(job_);
    }
    const absl::Status status = bound.ok() ? RunGuarded(job, *device_) : bound;
    job = nullptr;  // destroy its captures before Wait() can return
    absl::MutexLock lock(&mutex_);
    result_ = status;
    busy_ = false;
  }
}

std::vector<std::unique_ptr<DeviceWorker>> StartWorkers(
    absl::Span<const std::shared_ptr<Device>> devices) {
  std::vector<std::unique_ptr<DeviceWorker>> workers;
  for (const auto& device : devices) workers.push_back(std::make_unique<DeviceWorker>(device));
  return workers;
}

std::vector<absl::Status> RunOnAll(absl::Span<DeviceWorker* const> workers,
                                   const std::function<absl::Status(int)>& job) {
  for (size_t i = 0; i < workers.size(); ++i) {
    workers[i]->Start([&job, i] { return job(static_cast<int>(i)); });
  }
  std::vector<absl::Status> statuses;
  for (DeviceWorker* worker : workers) statuses.push_back(worker->Wait());
  return statuses;
}

absl::Status FirstError(absl::Span<const absl::Status> statuses) {
  for (const absl::Status& status : statuses) DPIPE_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace dpipe
