// The memory that the passes of a rank's stages hold, and from which instruction to which.
//
//   - Saved activations: from the forward pass to the pass that completes the layer's weight
//     gradients. With recomputation: from RECOMPUTE of the layer's block, and until then only the
//     inputs of the stage and the values that blocks hand on (core/cost/recompute_blocks.h).
//   - Messages: from RECV to the pass that reads them; from the pass that makes them to SEND.
//   - Values passed between stages of the same rank: from pass to pass. They are what crosses the
//     boundary between neighbours, the kept values (boundary.h), and the gradients of both.
//   - Sharded stages: parameters from GATHER_PARAMS to RELEASE_PARAMS; unsharded gradients from the
//     first weight gradient to the end of their reduction. A reduction ends when the rank starts
//     the next one, or at the end of the step.
#ifndef DPIPE_CORE_SCHEDULE_MEMORY_PASS_MEMORY_H_
#define DPIPE_CORE_SCHEDULE_MEMORY_PASS_MEMORY_H_

#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/memory/memory_timeline.h"
#include "core/schedule/placement/boundary.h"

namespace dpipe {

// The positions in a rank's list of one stage's passes over one micro-batch; -1: no such pass.
struct PassIndices {
  SampleRange samples;
  int begin = -1;               // the first forward pass
  int forward = -1;             // the last one, if the pass runs in parts
  int recompute = -1;           // the last one
  std::vector<int> recomputes;  // the first one of each block; empty without recomputation
  int gradient_done = -1;       // the last pass that reads the incoming gradient
  int done = -1;                // the last pass overall
};

class PassMemory {
 public:
  // `stages` are the plan's stages on this rank; `boundaries` is indexed by chain. Keeps references
  // to all arguments.
  PassMemory(const Plan& plan, int rank, const std::vector<int>& stages,
             const std::vector<ChainBoundaries>& boundaries, const CostModel& cost);

  void AddTo(MemoryTimeline* timeline) const;

  // [index in `stages`][micro-batch].
  const std::vector<std::vector<PassIndices>>& passes() const { return passes_; }

 private:
  int IndexOf(int stage) const;                               // in stages_; -1 if not on this rank
  const PassIndices* Find(int stage, int micro_batch) const;  // null if not on this rank
  void AddSaved(int i, MemoryTimeline* timeline) const;
  void AddMessage(int i, MemoryTimeline* timeline) const;
  void AddHandedOn(int stage, MemoryTimeline* timeline) const;  // between a stage's blocks
  void AddHandOvers(int stage, MemoryTimeline* timeline) const;
  void AddKept(int chain, MemoryTimeline* timeline) const;
  void AddSharded(MemoryTimeline* timeline) const;
  // The last pass that reads a micro-batch's inputs: the forward pass, or RECOMPUTE if the stage
  // recomputes.
  int InputsRead(const PassIndices& pass) const {
    return pass.recompute >= 0 ? pass.recompute : pass.forward;
  }

  const Plan& plan_;
  const google::protobuf::RepeatedPtrField<Instruction>& list_;
  const std::vector<int>& stages_;
  const std::vector<ChainBoundaries>& boundaries_;
  const CostModel& cost_;
  std::vector<std::vector<LayerRange>> blocks_;  // by index in stages_; empty: does not recompute
  std::vector<std::vector<PassIndices>> passes_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MEMORY_PASS_MEMORY_H_
