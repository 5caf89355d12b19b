#include "data/prefetcher.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

namespace dpipe {

Prefetcher::Prefetcher(int num_threads, int max_queued, std::function<void(int64_t)> work)
    : max_queued_(max_queued), work_(std::move(work)) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
}

Prefetcher::~Prefetcher() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    queue_.clear();
    queued_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::Enqueue(int64_t position) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!queued_.insert(position).second) return;
    queue_.push_back(position);
    if (queue_.size() > max_queued_) {
      queued_.erase(queue_.front());
      queue_.pop_front();
    }
  }
  changed_.notify_all();
}

void Prefetcher::WaitUntilIdle() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && num_busy_ == 0; });
}

void Prefetcher::Run() {
  // On Linux, the priority of "process" <thread id> is that of the thread. Failure is harmless.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    const int64_t position = queue_.front();
    queue_.pop_front();
    queued_.erase(position);
    ++num_busy_;
    lock.unlock();
    work_(position);
    lock.lock();
    --num_busy_;
    changed_.notify_all();
  }
}

}  // namespace dpipe
