// 1F1B (PipeDream-Flush: Narayanan et al., ICML 2021): after its warm-up, a stage alternates one
// forward and one backward, which stashes fewer micro-batches than GPipe at the same bubble. Frozen
// components run data-parallel before the pipeline; stage and micro-batch numbers by search.
#ifndef DPIPE_BASELINES_ONE_F_ONE_B_H_
#define DPIPE_BASELINES_ONE_F_ONE_B_H_

#include "core/proto/plan.pb.h"

namespace dpipe {

Strategy OneFOneB();

}  // namespace dpipe

#endif  // DPIPE_BASELINES_ONE_F_ONE_B_H_
