// AdamW with clipping by the global norm, a learning rate schedule and a moving average of the
// weights.
#ifndef DPIPE_CORE_TRAIN_ADAMW_OPTIMIZER_H_
#define DPIPE_CORE_TRAIN_ADAMW_OPTIMIZER_H_

#include <cstdint>

#include "core/ops/adamw.h"
#include "core/runtime/step_optimizer.h"
#include "core/train/adamw_moments.h"
#include "core/train/lr_schedule.h"

namespace dpipe {

struct AdamWOptions {
  ops::AdamWParams adamw;  // its learning rate is the schedule's
  LrSchedule learning_rate;
  double max_grad_norm = 1.0;  // 0: no clipping
  // Weight of the old average; 0: none is kept. Early on (1 + n) / (10 + n) is used where smaller,
  // n counting the average's updates from ema_start on, so that it does not remember the initial
  // weights.
  double ema_decay = 0.0;
  int64_t ema_every = 1;  // steps from one update of the average to the next
  int64_t ema_start = 0;  // before this step, updates make the average equal to the weights
  MomentsFormat moments = MomentsFormat::kFp32;
  int moments_block = 256;  // of 8-bit moments
};

// The weight of the old average in its update at the end of step `step` (from 0); 1 where there is
// none.
double EmaDecayAt(const AdamWOptions& options, int64_t step);

// What it keeps of each parameter, for the memory that plans are told to take.
double OptimizerBytesPerParameter(const AdamWOptions& options);

// Its state is of the kinds "m", "v" (or "root_v", of 8-bit moments) and kAverageKind.
StepOptimizerFactory AdamWFactory(const AdamWOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_ADAMW_OPTIMIZER_H_
