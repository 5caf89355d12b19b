// Admission control for (stage, micro-batch) pairs on one device, free of deadlocks.
//
// A device with several stages and a limit can fill up with pairs that cannot finish. In a V, for
// example, the first and the last stage share a device: pairs of the first stage may take all the
// room, although nothing is released until the last stage has run. So a pair is admitted only if
// the state after it is safe in the sense of Dijkstra's banker's algorithm: taken in the order in
// which they entered the pipeline, each micro-batch could finish with the room left and release all
// that it keeps. That is, for every micro-batch i in that order,
//
//   (pairs kept by i and those after it) + (pairs that i has yet to add) <= limit.
//
// Invariants: the oldest micro-batch's own pairs leave every such sum unchanged, so they are always
// admitted. A new micro-batch may enter an empty device if it makes no more pairs than the limit.
// If all devices use the order in which micro-batches entered the pipeline, the argument holds for
// the whole pipeline: the oldest micro-batch can always continue.
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_SAFE_ROOM_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_SAFE_ROOM_H_

#include <deque>

namespace dpipe {

// A micro-batch is (chain, number). Each operation takes O(micro-batches in flight).
class SafeRoom {
 public:
  // 0 means no limit: only the count of pairs is tracked.
  explicit SafeRoom(int limit = 0) : limit_(limit) {}

  int kept() const { return kept_; }
  // Registers a micro-batch, the newest so far, that will make `num_pairs` >= 1 pairs here.
  void Enter(int chain, int micro_batch, int num_pairs);
  // True if the micro-batch may add one of its pairs now. One that has not entered counts as the
  // newest, without pairs.
  bool MayAdd(int chain, int micro_batch) const;
  void Add(int chain, int micro_batch);
  void GiveBack(int chain, int micro_batch);

 private:
  struct InFlight {
    int chain = 0;
    int micro_batch = 0;
    int kept = 0;
    int to_come = 0;
  };

  std::deque<InFlight>::iterator Find(int chain, int micro_batch);

  int limit_;
  int kept_ = 0;
  std::deque<InFlight> in_flight_;  // oldest first
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_SAFE_ROOM_H_
