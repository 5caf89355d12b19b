// What OPTIMIZER_STEP calls.
#ifndef DPIPE_CORE_RUNTIME_STEP_OPTIMIZER_H_
#define DPIPE_CORE_RUNTIME_STEP_OPTIMIZER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/status.h"
#include "core/nn/parameters.h"

namespace dpipe {

// Updates the parameters of one stage on one rank, on that rank's thread.
class StepOptimizer {
 public:
  virtual ~StepOptimizer() = default;

  // `global_norm`: the gradients' norm over all stages, or negative where the plan does not compute
  // it. Leaves the gradients as they are; the caller clears them.
  virtual absl::Status Step(int64_t step, double global_norm, nn::ParameterSet* parameters) = 0;
};

// Makes the optimizer of a stage's parameters, which outlive it.
using StepOptimizerFactory =
    std::function<std::unique_ptr<StepOptimizer>(const nn::ParameterSet& parameters)>;

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_STEP_OPTIMIZER_H_
