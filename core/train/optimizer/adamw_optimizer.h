// AdamW with clipping by the global norm, a learning rate schedule and a moving average of the
// weights.
#ifndef DPIPE_CORE_TRAIN_OPTIMIZER_ADAMW_OPTIMIZER_H_
#define DPIPE_CORE_TRAIN_OPTIMIZER_ADAMW_OPTIMIZER_H_

#include <cstdint>

#include "core/ops/optimizer/optimizer.h"
#include "core/runtime/step_optimizer.h"
#include "core/train/optimizer/adamw_moments.h"
#include "core/train/optimizer/lr_schedule.h"

namespace dpipe {

struct AdamWOptions {
  ops::AdamWParams adamw;  // its learning rate comes from the schedule
  LrSchedule learning_rate;
  double max_grad_norm = 1.0;  // 0: no clipping
  // Weight of the old average; 0 means no average. Early on (1 + n) / (10 + n) is used if smaller,
  // with n counting the average's updates since ema_start, so that the average forgets the initial
  // weights.
  double ema_decay = 0.0;
  int64_t ema_every = 1;  // steps between updates of the average
  int64_t ema_start = 0;  // before this step, updates set the average to the weights
  MomentsFormat moments = MomentsFormat::kFp32;
  int moments_block = 256;  // of 8-bit moments
};

// Returns the weight of the old average in its update at the end of step `step` (from 0); 1 if
// there is no update.
double EmaDecayAt(const AdamWOptions& options, int64_t step);

// Returns the optimizer state's bytes per parameter, for the memory estimates of plans.
double OptimizerBytesPerParameter(const AdamWOptions& options);

// Returns AdamW optimizers. Their state has the kinds "m", "v" (or "root_v", for 8-bit moments) and
// kAverageKind.
StepOptimizerFactory AdamWFactory(const AdamWOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_OPTIMIZER_ADAMW_OPTIMIZER_H_
