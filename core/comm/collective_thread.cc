#include "core/comm/collective_thread.h"

#include <utility>

namespace dpipe {

class CollectiveThread::Pending : public PendingCollective {
 public:
  Pending(CollectiveThread* thread, std::shared_ptr<Task> task)
      : thread_(thread), task_(std::move(task)) {}

  absl::Status Wait() override { return thread_->WaitFor(task_.get()); }
  Nanos end_ns() const override { return task_->end_ns; }

 private:
  CollectiveThread* const thread_;
  const std::shared_ptr<Task> task_;
};

CollectiveThread::~CollectiveThread() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<PendingCollective> CollectiveThread::Start(
    std::function<absl::Status()> collective) {
  auto task = std::make_shared<Task>();
  task->run = std::move(collective);
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  absl::MutexLock lock(&mutex_);
  waiting_.push_back(task);
  return std::make_unique<Pending>(this, std::move(task));
}

void CollectiveThread::Loop() {
  const auto can_go_on = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return stop_ || (!running_ && !waiting_.empty());
  };
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(&can_go_on));
    if (stop_) return;
    RunFirst();
  }
}

void CollectiveThread::RunFirst() {
  const std::shared_ptr<Task> task = std::move(waiting_.front());
  waiting_.pop_front();
  running_ = true;
  mutex_.Unlock();
  absl::Status status = task->run();
  task->run = nullptr;  // releases the tensors
  const Nanos end_ns = MonotonicNow();
  mutex_.Lock();
  running_ = false;
  task->status = std::move(status);
  task->end_ns = end_ns;
  task->done = true;
}

absl::Status CollectiveThread::WaitFor(Task* task) {
  const auto can_go_on = [this, task]()
                             ABSL_NO_THREAD_SAFETY_ANALYSIS { return task->done || !running_; };
  absl::MutexLock lock(&mutex_);
  while (true) {
    mutex_.Await(absl::Condition(&can_go_on));
    if (task->done) return task->status;
    RunFirst();  // `task` is in the queue, so there is a first
  }
}

}  // namespace dpipe
