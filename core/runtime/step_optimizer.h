// What OPTIMIZER_STEP calls.
#ifndef DPIPE_CORE_RUNTIME_STEP_OPTIMIZER_H_
#define DPIPE_CORE_RUNTIME_STEP_OPTIMIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/nn/parameters.h"
#include "core/runtime/state_tensor.h"

namespace dpipe {

// Updates the parameters of one stage on one rank, on that rank's thread.
class StepOptimizer {
 public:
  virtual ~StepOptimizer() = default;

  // An update of step `step`, the only one or, where a plan has several a step (`ends_step`: the
  // last one), one of them: what goes by time, as the learning rate does, goes by steps.
  // `global_norm`: the gradients' norm over all stages, or negative where the plan does not compute
  // it. Leaves the gradients as they are; the caller clears them. Not called for a step whose
  // losses or norm are known not to be finite (see LocalSessionOptions::max_skipped_in_a_row).
  virtual absl::Status Step(int64_t step, bool ends_step, double global_norm,
                            nn::ParameterSet* parameters) = 0;

  // Sets `predicted`, which holds the current weights, to about what `updates` more updates of step
  // `step` will make of them. Leaves the optimizer as it is.
  virtual absl::Status Predict(int64_t /*step*/, int /*updates*/, nn::ParameterSet* /*predicted*/) {
    return absl::UnimplementedError("this optimizer does not predict weights");
  }

  // What it keeps from step to step besides the weights, of one kind or, where that is empty, all
  // of it, so that a run can be saved and continued, also by another plan. Parts of one tensor that
  // several ranks give must fit together whatever the division: what is kept in blocks that a
  // shard's end may cut is given as elementwise fp32 copies instead. Called between steps.
  virtual std::vector<StateTensor> State(absl::string_view kind) = 0;
  // The updates made so far, which Adam's bias correction counts: not the steps, as some may have
  // been skipped.
  virtual int64_t num_updates() const = 0;
  // Called once all tensors, as the last State() gave them, have been overwritten by a saved run's.
  virtual absl::Status StateRestored(int64_t num_updates) = 0;
};

// Makes the optimizer of a stage's parameters, which outlive it.
using StepOptimizerFactory =
    std::function<std::unique_ptr<StepOptimizer>(const nn::ParameterSet& parameters)>;

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_STEP_OPTIMIZER_H_
