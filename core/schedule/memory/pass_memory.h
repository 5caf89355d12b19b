// What the passes of a rank's stages keep.
//
// From forward pass to the pass that completes the weight gradients of a layer: what it saved; with
// recomputation, from RECOMPUTE on, and until then the stage's inputs. Messages: from RECV to the
// pass that reads them, and from the pass that makes them to SEND. What stages of the rank hand to
// each other, from pass to pass: over the boundary between neighbours, and kept values (boundary.h)
// and their gradients. Of sharded stages: parameters from GATHER_PARAMS to RELEASE_PARAMS, and
// whole gradients from the first weight gradient until their reduction is over, which the rank's
// next one waits for, or the step.
#ifndef DPIPE_CORE_SCHEDULE_MEMORY_PASS_MEMORY_H_
#define DPIPE_CORE_SCHEDULE_MEMORY_PASS_MEMORY_H_

#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/memory/memory_timeline.h"
#include "core/schedule/placement/boundary.h"

namespace dpipe {

// Where the passes of one micro-batch of one stage stand in a rank's list; -1: nowhere.
struct PassIndices {
  SampleRange samples;
  int begin = -1;    // of the forward pass that keeps what the backward pass needs
  int forward = -1;  // of passes in parts, the last one
  int recompute = -1;
  int gradient_done = -1;  // the last pass that reads the incoming gradient
  int done = -1;           // the last pass of all
};

class PassMemory {
 public:
  // `stages` of the plan lie on the rank; `boundaries` by chain.
  PassMemory(const Plan& plan, int rank, const std::vector<int>& stages,
             const std::vector<ChainBoundaries>& boundaries, const CostModel& cost);

  void AddTo(MemoryTimeline* timeline) const;

  // By place in `stages`, then micro-batch.
  const std::vector<std::vector<PassIndices>>& passes() const { return passes_; }

 private:
  const PassIndices* Find(int stage, int micro_batch) const;  // null: not on this rank
  void AddSaved(int i, MemoryTimeline* timeline) const;
  void AddMessage(int i, MemoryTimeline* timeline) const;
  void AddHandOvers(int stage, MemoryTimeline* timeline) const;
  void AddKept(int chain, MemoryTimeline* timeline) const;
  void AddSharded(MemoryTimeline* timeline) const;
  // The last pass that reads the inputs of a micro-batch as such: of a stage that recomputes, the
  // second forward pass.
  int InputsRead(const PassIndices& pass) const {
    return pass.recompute >= 0 ? pass.recompute : pass.forward;
  }

  const Plan& plan_;
  const google::protobuf::RepeatedPtrField<Instruction>& list_;
  const std::vector<int>& stages_;
  const std::vector<ChainBoundaries>& boundaries_;
  const CostModel& cost_;
  std::vector<std::vector<PassIndices>> passes_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MEMORY_PASS_MEMORY_H_
