// The memory that a rank's frozen work keeps:
//   - loaded inputs, until the first layers have run;
//   - intermediate values, until the next layers of their component have run or they are sent;
//   - outputs (computed, received or loaded from the cache), until the last message, frozen layer
//     or pass that reads them.
#ifndef DPIPE_CORE_SCHEDULE_MEMORY_FROZEN_MEMORY_H_
#define DPIPE_CORE_SCHEDULE_MEMORY_FROZEN_MEMORY_H_

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/memory/memory_timeline.h"
#include "core/schedule/memory/pass_memory.h"

namespace dpipe {

class FrozenMemory {
 public:
  // `stages` are the stages of the rank, and passes[i] the passes of stages[i]. Keeps references to
  // `plan` and `cost`.
  FrozenMemory(const Plan& plan, int rank, const std::vector<int>& stages,
               const std::vector<std::vector<PassIndices>>& passes, const CostModel& cost);

  // Adds everything above to the rank's timeline, and the workspace of frozen layers.
  void AddTo(MemoryTimeline* timeline) const;
  // Returns the bytes of the weights of the frozen layers that the rank runs.
  int64_t WeightBytes() const;

 private:
  // By sample of the global batch: the last instruction of the last pass that reads it, or -1.
  using LastReads = std::vector<int>;

  void IndexReaders(const std::vector<int>& stages,
                    const std::vector<std::vector<PassIndices>>& passes);
  void AddContinued(int i, int layer, int64_t bytes, MemoryTimeline* timeline) const;
  void AddCached(int i, MemoryTimeline* timeline) const;
  void AddOutputs(int i, MemoryTimeline* timeline) const;

  const Plan& plan_;
  const google::protobuf::RepeatedPtrField<Instruction>& list_;
  const CostModel& cost_;
  // Instruction indices, increasing. FROZEN_FORWARDs and SENDs of values by (component,
  // step_offset, first layer), and readers of outputs (FROZEN_FORWARDs and SENDs, but not passes)
  // by (component, step_offset).
  std::map<std::tuple<int, int, int>, std::vector<int>> starts_at_;
  std::map<std::pair<int, int>, std::vector<int>> readers_;
  std::vector<LastReads> last_reads_;    // by source component
  std::vector<LastReads> cached_reads_;  // by component: of a backbone's cached outputs
  std::vector<int64_t> cached_bytes_;    // by component: per sample, on this rank
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MEMORY_FROZEN_MEMORY_H_
