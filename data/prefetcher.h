// Background threads that call a function for queued positions. A position is queued at most once.
#ifndef DPIPE_DATA_PREFETCHER_H_
#define DPIPE_DATA_PREFETCHER_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace dpipe {

// A hint, not a guarantee: if the queue is full, the oldest position is dropped. Thread-safe.
class Prefetcher {
 public:
  // The threads run `work(position)` at the lowest CPU priority, so that they use only what
  // training leaves idle.
  Prefetcher(int num_threads, int max_queued, std::function<void(int64_t)> work);
  // Clears the queue and blocks until the calls in progress return.
  ~Prefetcher();

  void Enqueue(int64_t position);

  // Blocks until nothing is queued or in progress.
  void WaitUntilIdle();

 private:
  void Run();

  const size_t max_queued_;
  const std::function<void(int64_t)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int64_t> queue_;
  std::set<int64_t> queued_;  // the content of queue_
  int num_busy_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_PREFETCHER_H_
