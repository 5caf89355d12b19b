// What a rank's frozen work keeps: loaded inputs until the first layers have run, intermediate
// values until their chain goes on, and outputs, computed, received or loaded from the cache, until
// the last of the messages, frozen layers and passes that read them.
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
  // `passes` by place in `stages`, which lie on the rank.
  FrozenMemory(const Plan& plan, int rank, const std::vector<int>& stages,
               const std::vector<std::vector<PassIndices>>& passes, const CostModel& cost);

  void AddTo(MemoryTimeline* timeline) const;
  // For the frozen layers that the rank runs.
  int64_t WeightBytes() const;

 private:
  // By sample of the global batch: the last instruction of a pass that reads it; -1 if none does.
  using LastReads = std::vector<int>;

  void IndexReaders(const std::vector<int>& stages,
                    const std::vector<std::vector<PassIndices>>& passes);
  void AddContinued(int i, int layer, int64_t bytes, MemoryTimeline* timeline) const;
  void AddCached(int i, MemoryTimeline* timeline) const;
  void AddOutputs(int i, MemoryTimeline* timeline) const;

  const Plan& plan_;
  const google::protobuf::RepeatedPtrField<Instruction>& list_;
  const CostModel& cost_;
  // FROZEN_FORWARDs by (component, step_offset, first layer); what reads outputs other than passes,
  // by (component, step_offset). Increasing.
  std::map<std::tuple<int, int, int>, std::vector<int>> starts_at_;
  std::map<std::pair<int, int>, std::vector<int>> readers_;
  std::vector<LastReads> last_reads_;    // by source
  std::vector<LastReads> cached_reads_;  // by backbone: of cached outputs
  std::vector<int64_t> cached_bytes_;    // by backbone: of one sample, on this rank
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MEMORY_FROZEN_MEMORY_H_
