// The work of one collective among ranks whose threads can access each other's memory.
//
// It needs no additional threads: the work is divided into chunks, and any rank that is waiting
// takes the next one, its own or another's. Within each chunk, sums are taken in the members'
// order, so their bits do not depend on which rank computed them.
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
  // A member's tensors, as in Communicator's methods; an all-reduce has only `full`. fp32, in
  // memory that host code may access.
  struct Contribution {
    std::vector<Tensor> shards, full;
  };

  SharedCollective(Kind kind, int num_members);

  Kind kind() const { return kind_; }

  // Adds the tensors of member `number`, which arrived at `now_ns`. Called once per member, not
  // concurrently. Returns true for the last member, with which the work begins.
  bool Join(int number, Contribution contribution, Nanos now_ns);

  // The remaining methods may be called by any thread at any time.
  bool complete() const { return complete_.load(std::memory_order_acquire); }
  // True if there are chunks that no thread has taken.
  bool HasWork() const;
  // Takes a chunk, if there is one, and processes it. Returns true for the call that ends the
  // collective, after which it holds no more references to the members' tensors.
  bool RunNextChunk();
  bool done() const { return done_.load(std::memory_order_acquire); }

  // Returns when the last member joined. Valid once complete.
  Nanos complete_ns() const { return complete_ns_; }
  // Returns when the last chunk was done. Valid once done.
  Nanos done_ns() const { return done_ns_; }

 private:
  // Elements [begin, end) of a tensor, counted as in `full`. If the members' outputs differ,
  // `member` is the one that gets this output.
  struct Chunk {
    int member = 0;
    int tensor = 0;
    int64_t begin = 0, end = 0;
  };

  Shard ShardOf(int member) const { return {member, static_cast<int>(contributions_.size())}; }
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
  std::vector<Contribution> contributions_;  // by member
  std::vector<Chunk> chunks_;                // fixed once complete
  Nanos complete_ns_ = 0;
  Nanos done_ns_ = 0;
  std::atomic<bool> complete_{false};
  std::atomic<int> num_taken_{0};  // may exceed the number of chunks
  std::atomic<int> num_done_{0};
  std::atomic<bool> done_{false};
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_SHARED_COLLECTIVE_H_
