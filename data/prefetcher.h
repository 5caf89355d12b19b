// Background threads that call a function for queued positions, each position once while it is
// queued.
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

// A hint, not a promise: when the queue is full, the oldest position is dropped. Thread-safe.
class Prefetcher {
 public:
  // Threads run `work(position)` at the lowest CPU priority, so that they use only what training
  // leaves.
  Prefetcher(int num_threads, int max_queued, std::function<void(int64_t)> work);
  // Drops what is queued and waits for the calls in progress.
  ~Prefetcher();

  void Enqueue(int64_t position);

  // Returns when nothing is queued or in progress.
  void WaitUntilIdle();

 private:
  void Run();

  const size_t max_queued_;
  const std::function<void(int64_t)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<int64_t> queue_;
  std::set<int64_t> queued_;  // what queue_ holds
  int num_busy_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_PREFETCHER_H_
