// What in-process ranks share, and how one of them waits. Not for use by anything but
// in_process.cc.
#ifndef DPIPE_CORE_COMM_IN_PROCESS_STATE_H_
#define DPIPE_CORE_COMM_IN_PROCESS_STATE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "core/base/status.h"
#include "core/base/time.h"
#include "core/comm/in_process.h"
#include "core/comm/shared_collective.h"
#include "core/tensor/tensor.h"

namespace dpipe::internal {

struct Message {
  std::vector<Tensor> tensors;
  Nanos sent_ns = 0;
};

// A sum of doubles over all ranks: every rank brings its values, the last one opens the gate. What
// was brought is read after the gate opens, when fast ranks may already come to the next sum;
// nobody reaches the one after that before all have read, so two sets are enough. A set is dropped
// when the next gate opens.
struct DoubleSums {
  struct Brought {
    std::map<int, std::vector<double>> values;  // by rank
    Nanos last_arrival_ns = 0;
  };
  int64_t generation = 0;
  int arrived = 0;
  Brought brought[2];
};

struct InProcessState {
  InProcessState(int num_ranks, const InProcessOptions& opts) : size(num_ranks), options(opts) {}

  const int size;
  const InProcessOptions options;
  absl::Mutex mutex;
  // Goes up, with the mutex held, with whatever a rank may wait for; looked at without it.
  std::atomic<uint64_t> num_changes{0};
  absl::Status failure ABSL_GUARDED_BY(mutex);
  std::map<std::tuple<int, int, int64_t>, std::deque<Message>> mailboxes
      ABSL_GUARDED_BY(mutex);  // by (from, to, tag)
  // That not all ranks have come to, by group and number among the group's.
  std::map<std::pair<std::vector<int>, int64_t>, std::shared_ptr<SharedCollective>> collectives
      ABSL_GUARDED_BY(mutex);
  DoubleSums sums ABSL_GUARDED_BY(mutex);
  // Cores of the ranks' threads that have waited so far, and how many these are.
  std::set<int> cores ABSL_GUARDED_BY(mutex);
  int num_known_threads ABSL_GUARDED_BY(mutex) = 0;
  bool cores_are_shared ABSL_GUARDED_BY(mutex) = false;

  void Fail(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

// A collective that a rank has started.
struct CollectiveShare {
  std::shared_ptr<SharedCollective> shared;
  std::string what;
  bool ended = false;  // for this rank
  Nanos end_ns = 0;
};

// The waiting of one rank's thread.
class InProcessWaiter {
 public:
  InProcessWaiter(std::shared_ptr<InProcessState> state, int rank);

  InProcessState& state() const { return *state_; }
  int rank() const { return rank_; }

  // Collectives end for a rank in the order of starting.
  void Add(std::shared_ptr<CollectiveShare> share) { shares_.push_back(std::move(share)); }
  // Waits for the first that has not ended. There is one.
  absl::Status EndFirst();

  // Waits, with the state's mutex held, until `ready` or failure or the deadline. Works on the
  // first of the rank's collectives where it can, else looks, and sleeps in the end. `what` is
  // asked what was waited for when the deadline has passed.
  absl::Status Await(absl::FunctionRef<bool()> ready, absl::FunctionRef<std::string()> what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state().mutex);
  // A wait from begin_ns on is over, which could have been over at ready_ns.
  void Observe(Nanos begin_ns, Nanos ready_ns) const;

 private:
  // The first of the rank's collectives that is not done; null: none.
  SharedCollective* Current() const;
  bool HasWork() const;
  void Work();
  void LearnCores() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  bool MaySpin() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  bool LookUntil(Nanos end_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);

  const std::shared_ptr<InProcessState> state_;
  const int rank_;
  // Not ended yet: used by the rank's thread, or by another while that one sleeps.
  std::deque<std::shared_ptr<CollectiveShare>> shares_;
  Nanos last_end_ns_ = 0;      // of a collective
  Nanos worked_until_ns_ = 0;  // on one
  bool cores_are_known_ = false;
};

}  // namespace dpipe::internal

#endif  // DPIPE_CORE_COMM_IN_PROCESS_STATE_H_
