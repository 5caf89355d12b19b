// State shared by in-process ranks, and how one of them waits. For in_process.cc only.
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

// A sum of doubles over all ranks: every rank contributes its values, and the last one opens the
// gate. Contributions are read after the gate opens, when fast ranks may already have reached the
// next sum. No rank reaches the sum after that one before all have read, so two sets are enough. A
// set is dropped when the next gate opens.
struct DoubleSums {
  struct Contribution {
    std::map<int, std::vector<double>> values;  // by rank
    Nanos last_arrival_ns = 0;
  };
  int64_t generation = 0;
  int arrived = 0;
  Contribution brought[2];
};

struct InProcessState {
  InProcessState(int num_ranks, const InProcessOptions& opts) : size(num_ranks), options(opts) {}

  const int size;
  const InProcessOptions options;
  absl::Mutex mutex;
  // Incremented, with the mutex held, whenever something changes that a rank may wait for. Read
  // without the mutex.
  std::atomic<uint64_t> num_changes{0};
  absl::Status failure ABSL_GUARDED_BY(mutex);
  std::map<std::tuple<int, int, int64_t>, std::deque<Message>> mailboxes
      ABSL_GUARDED_BY(mutex);  // by (from, to, tag)
  // Collectives that not all ranks have joined yet, by group and number within the group.
  std::map<std::pair<std::vector<int>, int64_t>, std::shared_ptr<SharedCollective>> collectives
      ABSL_GUARDED_BY(mutex);
  DoubleSums sums ABSL_GUARDED_BY(mutex);
  // Cores of the ranks' threads that have waited so far, and the number of these threads.
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

// Waits on behalf of one rank's thread.
class InProcessWaiter {
 public:
  InProcessWaiter(std::shared_ptr<InProcessState> state, int rank);

  InProcessState& state() const { return *state_; }
  int rank() const { return rank_; }

  // Adds a started collective. Collectives end for a rank in the order in which they were started.
  void Add(std::shared_ptr<CollectiveShare> share) { shares_.push_back(std::move(share)); }
  // Blocks until the first collective that has not ended does so. There must be one.
  absl::Status EndFirst();

  // Blocks, with the state's mutex held on entry and exit, until `ready`, a failure or the
  // deadline. In the meantime works on the first of the rank's collectives if it can; otherwise
  // spins, and finally sleeps. After the deadline, `what` is called for the name of what was waited
  // for.
  absl::Status Await(absl::FunctionRef<bool()> ready, absl::FunctionRef<std::string()> what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state().mutex);
  // Reports a wait that began at begin_ns, has just ended, and could have ended at ready_ns.
  void Observe(Nanos begin_ns, Nanos ready_ns) const;

 private:
  // Returns the first of the rank's collectives that is not done, or null if there is none.
  SharedCollective* Current() const;
  bool HasWork() const;
  void Work();
  void LearnCores() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  bool MaySpin() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);
  bool SpinUntil(Nanos end_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);

  const std::shared_ptr<InProcessState> state_;
  const int rank_;
  // Not ended yet. Used by the rank's thread, or by another one while that thread sleeps.
  std::deque<std::shared_ptr<CollectiveShare>> shares_;
  Nanos last_end_ns_ = 0;      // of a collective
  Nanos worked_until_ns_ = 0;  // on a collective
  bool cores_are_known_ = false;
};

}  // namespace dpipe::internal

#endif  // DPIPE_CORE_COMM_IN_PROCESS_STATE_H_
