// The work of one collective among ranks whose threads reach each other's memory.
//
// It needs no additional threads: it is divided into chunks, and whichever of the ranks has nothing
// better to do takes the next one, its own or another's. Sums are taken in the members' order
// within each chunk, so that their bits do not depend on who took it.
#ifndef DPIPE_CORE_COMM_SHARED_COLLECTIVE_H_
#define DPIPE_CORE_COMM_SHARED_COLLECTIVE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "core/base/shard.h"
#include "core/base/time.h"
#include "core/tensor/ordered_sum.h"
#include "core/tensor/tensor.h"

namespace dpipe {

class SharedCollective {
 public:
  enum class Kind { kAllReduceSum, kAllGather, kReduceScatterSum };
  // What a member brings, as Communicator has it: of an all-reduce `full` alone. fp32, in memory
  // that host code may use.
  struct Brought {
    std::vector<Tensor> shards, full;
  };

  SharedCollective(Kind kind, int num_members);

  Kind kind() const { return kind_; }

  // Member `number` is there with its tensors, at `now_ns`. Each member once, one at a time. True
  // for the last one: with it the work begins.
  bool Join(int number, Brought brought, Nanos now_ns);

  // The rest may be called by any thread at any time.
  bool complete() const { return complete_.load(std::memory_order_acquire); }
  // Whether there are chunks that nobody has taken.
  bool HasWork() const;
  // Takes a chunk, if there is one, and does it. True for the call that ends the collective, after
  // which nothing of what was brought is held any more.
  bool WorkOnOne();
  bool done() const { return done_.load(std::memory_order_acquire); }

  // When the last member came; once complete.
  Nanos complete_ns() const { return complete_ns_; }
  // When the last chunk was done; once done.
  Nanos done_ns() const { return done_ns_; }

 private:
  // Elements [begin, end) of a tensor, whole as `full` has it: for whom they are written, of kinds
  // that write something else for each member.
  struct Chunk {
    int member = 0;
    int tensor = 0;
    int64_t begin = 0, end = 0;
  };

  Shard ShardOf(int member) const { return {member, static_cast<int>(brought_.size())}; }
  void CheckSizes() const;
  void Divide();
  void Do(const Chunk& chunk);
  OrderedSum SumOf(int tensor, int64_t begin, int64_t end) const;
  void Sum(const Chunk& chunk);
  void Gather(const Chunk& chunk);
  void ReduceScatter(const Chunk& chunk);
  void End();

  const Kind kind_;
  int num_joined_ = 0;
  std::vector<Brought> brought_;  // by member
  std::vector<Chunk> chunks_;     // fixed once complete
  Nanos complete_ns_ = 0;
  Nanos done_ns_ = 0;
  std::atomic<bool> complete_{false};
  std::atomic<int> num_taken_{0};  // may count on beyond the last chunk
  std::atomic<int> num_done_{0};
  std::atomic<bool> done_{false};
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_SHARED_COLLECTIVE_H_
