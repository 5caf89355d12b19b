// How fast a step could possibly be. [algorithms.md §4, Bound]
//
// Given the stages, micro-batches and samples of a plan, no order of instructions and no placement
// of frozen work, within a step or across steps, has a steady step (TraceStats.step_ns) shorter
// than the largest of
//   - work: all compute of a step over N devices: backbone passes, optimizer, and the frozen layers
//   each at
//     its least time per sample over the local batches it may run at;
//   - device: the backbone passes and optimizer of the busiest device;
//   - path, for every stage s: the optimizer step of stage 0; the way in: forward passes and links
//   of one
//     micro-batch through the stages before s; all M micro-batches on s; the way out: backward
//     passes and links through the stages before s.
// Proof of the last: stage 0's first forward pass of a step follows its optimizer step; s can start
// only after a micro-batch has come in, must compute them all, and only then can the last one's
// gradient go out, which stage 0's next optimizer step waits for. So the earliest OPTIMIZER_STEP
// end among stage 0's ranks moves on by at least the sum each step, across steps or not. Where
// input and weight gradients are split, only input gradients count on the way out, as weight
// gradients can wait. Contention and queueing only add.
#ifndef DPIPE_CORE_SIM_LOWER_BOUND_H_
#define DPIPE_CORE_SIM_LOWER_BOUND_H_

#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

struct StepBound {
  Nanos work_ns = 0;
  Nanos device_ns = 0;
  std::vector<Nanos> path_ns;     // by stage
  Nanos micro_batch_path_ns = 0;  // one micro-batch through all stages and back, and the optimizer
  Nanos bound_ns = 0;             // the largest
};

// `plan` must be valid but for its frozen work, which may be missing.
StepBound StepLowerBound(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SIM_LOWER_BOUND_H_
