// Room for (stage, micro-batch) pairs on one device, given out so that nothing gets stuck.
//
// A device with several stages and a limit can fill with pairs that cannot finish: the first stage
// of a V shuts out the last one, which shares its device and would have to run before anything is
// given back. So a pair is admitted only if the state after it is safe in the sense of Dijkstra's
// banker: taking the micro-batches in the order in which they entered the pipeline, each could
// finish with the room that is left and give back all that it keeps. That is, for every micro-batch
// i in that order,
//
//   (pairs kept by i and those after it) + (pairs that i has yet to add) <= limit.
//
// The oldest micro-batch's own pairs leave every such sum as it is, so they are always admitted;
// and a new micro-batch may enter an empty device if it makes no more pairs than the limit. If all
// devices use the order in which micro-batches entered the pipeline, the argument holds for the
// pipeline as a whole: the oldest can always go on.
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_SAFE_ROOM_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_SAFE_ROOM_H_

#include <deque>

namespace dpipe {

// A micro-batch is (chain, number). Operations take O(micro-batches in flight).
class SafeRoom {
 public:
  // 0: no limit, and nothing but the count is tracked.
  explicit SafeRoom(int limit = 0) : limit_(limit) {}

  int kept() const { return kept_; }
  // The micro-batch will make `num_pairs` here; it is the newest. At least 1.
  void Enter(int chain, int micro_batch, int num_pairs);
  // Whether it may add one of its pairs. A micro-batch that has not entered keeps nothing yet.
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
