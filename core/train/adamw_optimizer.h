// AdamW with clipping by the global norm, a learning rate schedule and a moving average of the
// weights.
#ifndef DPIPE_CORE_TRAIN_ADAMW_OPTIMIZER_H_
#define DPIPE_CORE_TRAIN_ADAMW_OPTIMIZER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "core/nn/parameters.h"
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
  // n counting the updates from ema_start on, so that the average does not remember the initial
  // weights.
  double ema_decay = 0.0;
  int64_t ema_every = 1;  // steps from one update of the average to the next
  int64_t ema_start = 0;  // before this step, updates make the average equal to the weights
  MomentsFormat moments = MomentsFormat::kFp32;
  int moments_block = 256;  // of 8-bit moments
};

// The weight of the old average in the update after step `step` (from 0); 1 where there is none.
double EmaDecayAt(const AdamWOptions& options, int64_t step);

// The moving averages of all stages of a run, by parameter name. Thread-safe.
class EmaWeights {
 public:
  // The average of a part of a parameter. Shares the tensor's storage, which the optimizer goes on
  // updating between steps.
  void Register(const std::string& name, const nn::ParameterPart& part, const Tensor& average);
  // Copies of all averages; call it between steps.
  std::map<std::string, Tensor> Collect() const;

 private:
  mutable absl::Mutex mutex_;
  // By name and number of the shard.
  std::map<std::pair<std::string, int>, std::pair<nn::ParameterPart, Tensor>> averages_
      ABSL_GUARDED_BY(mutex_);
};

// `ema` collects the averages where ema_decay > 0, else it may be null; it outlives the optimizers.
StepOptimizerFactory AdamWFactory(const AdamWOptions& options, EmaWeights* ema);

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_ADAMW_OPTIMIZER_H_
