// The bytes that one rank holds while each instruction of its list runs.
#ifndef DPIPE_CORE_SCHEDULE_MEMORY_MEMORY_TIMELINE_H_
#define DPIPE_CORE_SCHEDULE_MEMORY_MEMORY_TIMELINE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dpipe {

class MemoryTimeline {
 public:
  explicit MemoryTimeline(int num_instructions)
      : change_(num_instructions + 1, 0), transient_(num_instructions, 0) {}

  int size() const { return static_cast<int>(transient_.size()); }
  // Adds bytes held from instruction `from` to `to`, both included. If `to` < `from`, only at
  // `from`.
  void Hold(int from, int to, int64_t bytes) {
    change_[from] += bytes;
    change_[std::max(from, to) + 1] -= bytes;
  }
  // Adds bytes held from instruction `from` of one step to `to` of the next.
  void HoldAcross(int from, int to, int64_t bytes) {
    Hold(from, size() - 1, bytes);
    Hold(0, to, bytes);
  }
  // Adds bytes held only while instruction `at` runs.
  void HoldDuring(int at, int64_t bytes) { transient_[at] += bytes; }

  // Returns the bytes held, by instruction. `always` is added to each.
  std::vector<int64_t> Held(int64_t always) const {
    std::vector<int64_t> held(transient_.size());
    for (size_t i = 0; i < held.size(); ++i) {
      always += change_[i];
      held[i] = always + transient_[i];
    }
    return held;
  }

 private:
  std::vector<int64_t> change_;     // of the bytes held, from one instruction to the next
  std::vector<int64_t> transient_;  // held only while one instruction runs
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MEMORY_MEMORY_TIMELINE_H_
