// The optimizer that OPTIMIZER_STEP calls.
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

  // Makes an update of step `step`: the only one, or one of several if the plan has several per
  // step (`ends_step`: the last one). Schedules such as the learning rate's depend on the step.
  // `global_norm` is the gradients' norm over all stages, or negative if the plan does not compute
  // it. Does not modify the gradients; the caller clears them. Not called for a step whose losses
  // or norm are known not to be finite (see LocalSessionOptions::max_skipped_in_a_row).
  virtual absl::Status Step(int64_t step, bool ends_step, double global_norm,
                            nn::ParameterSet* parameters) = 0;

  // Sets `predicted`, which holds the current weights, to approximately their values after
  // `updates` more updates of step `step`. Does not modify the optimizer.
  virtual absl::Status Predict(int64_t /*step*/, int /*updates*/, nn::ParameterSet* /*predicted*/) {
    return absl::UnimplementedError("this optimizer does not predict weights");
  }

  // Returns the state other than the weights, of one kind or, if `kind` is empty, of all kinds. A
  // run can be saved with it and continued, also by another plan. Parts of one tensor from several
  // ranks must fit together for any division, so state in blocks that a shard's end may cut is
  // returned as elementwise fp32 copies instead. Called between steps.
  virtual std::vector<StateTensor> State(absl::string_view kind) = 0;
  // Returns the number of updates so far, for Adam's bias correction: not the number of steps, as
  // some may have been skipped.
  virtual int64_t num_updates() const = 0;
  // Called once after all tensors of the last State() have been overwritten by those of a saved
  // run.
  virtual absl::Status StateRestored(int64_t num_updates) = 0;
};

// Creates the optimizer of a stage's parameters, which outlive it.
using StepOptimizerFactory =
    std::function<std::unique_ptr<StepOptimizer>(const nn::ParameterSet& parameters)>;

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_STEP_OPTIMIZER_H_
