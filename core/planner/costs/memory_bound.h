// Lower bound on the memory that a shape needs with any cut. It spares a search the cuts that
// cannot fit. [algorithms.md §2]
//
// Device d holds F_d bytes of frozen weights. For layer l in stage k it also holds the layer's
// state a_l (divided over the ranks that share it) and what n_k micro-batches of b samples keep of
// it, n_k b c_l. n_k is read from the schedule at the moment when the device keeps the most. For
// all weights mu_d >= 0 with sum 1, the fullest device of any cut holds at least
//
//   sum_d mu_d F_d  +  sum_l min over stages k of  sum over k's devices d of mu_d (a_l + n_k b c_l)
//
// because the maximum over devices is at least their mean, and no layer can do better than in its
// best stage. mu_d is inversely proportional to what the device holds under an even cut.
//
// If there are more than 16 devices, neighbours are merged: the schedule is made for fewer devices,
// each of which represents several. A device that recomputes keeps at least the activations of one
// stage, or of one layer if it does so in blocks. Workspaces, messages, gathered weights and what
// recomputation keeps at the cuts are ignored.
#ifndef DPIPE_CORE_PLANNER_COSTS_MEMORY_BOUND_H_
#define DPIPE_CORE_PLANNER_COSTS_MEMORY_BOUND_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/cost/cost_model.h"
#include "core/planner/pipeline/shape.h"

namespace dpipe {

// Bytes of frozen components' weights: on every device, and additional ones on the shape's frozen
// hosts.
struct FrozenBytes {
  int64_t everywhere = 0;
  int64_t hosted = 0;
};

// Not thread-safe: caches what it has read from schedules.
class MemoryBound {
 public:
  explicit MemoryBound(const CostModel& cost);

  // Returns the bound as a multiple of the memory of the device that has most: above 1, nothing
  // fits. A result of at most 1 may be larger than the bound. Returns 0 if a device has no limit,
  // and nullopt if the schedule refuses the shape's peak_limit. `stages_choose_ranks`: a
  // partitioner may give the stages other numbers of ranks than shape.replicas(). `in_blocks`:
  // stages that recompute may do so in blocks. O(layers x min(stages, 32)), O(min(stages, 32)) for
  // most shapes that fit.
  std::optional<double> ShareOf(const PipelineShape& shape, const FrozenBytes& frozen,
                                bool recomputes, bool stages_choose_ranks, bool in_blocks = false);

 private:
  struct Copy {  // one copy of a stage
    int device = 0;
    double kept = 0;        // micro-batches kept
    double recomputed = 0;  // the same on a device that recomputes
  };
  struct Structure {
    int num_devices = 0;
    int each = 1;                                        // devices that each of these represents
    bool splits = false;                                 // splits backward passes
    std::vector<std::vector<std::vector<Copy>>> stages;  // [backbone][stage]
  };
  struct Layer {
    double state = 0;
    double frozen = 0;  // the part of state that ZeRO-1 does not divide
    double saved = 0;   // per sample
  };
  using Key = std::tuple<std::string, int, int, int, int, int>;

  const std::optional<Structure>& StructureOf(const PipelineShape& shape);
  std::optional<Structure> ReadSchedule(const PipelineShape& small, int each,
                                        int num_micro_batches) const;

  double limit_ = 0;  // of the device with the most memory; 0: some device has no limit
  std::vector<std::vector<Layer>> layers_;  // by backbone
  std::vector<Layer> totals_;               // by backbone
  double smallest_saved_ = 0;               // by a layer, per sample
  std::map<Key, std::optional<Structure>> structures_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_COSTS_MEMORY_BOUND_H_
