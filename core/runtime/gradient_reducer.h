// What REDUCE_GRADS does with gradients that every rank of a stage holds whole.
#ifndef DPIPE_CORE_RUNTIME_GRADIENT_REDUCER_H_
#define DPIPE_CORE_RUNTIME_GRADIENT_REDUCER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/strong_id.h"
#include "core/comm/communicator.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// One rank's, used by its thread. What it keeps from step to step is no part of a saved run.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // Starts to replace `gradients` (fp32) by about their sum over the group, with the same bits on
  // every rank of it. The same `what` comes with the same gradients, step after step, and each is
  // waited for before it comes again. The caller waits for what is started in the order of
  // starting: Wait may communicate.
  virtual Communicator::StartedCollective Start(absl::Span<const Rank> group,
                                                std::vector<Tensor> gradients,
                                                const std::string& what) = 0;
};

// Makes a rank's; the communicator outlives it.
using GradientReducerFactory =
    std::function<std::unique_ptr<GradientReducer>(Communicator* communicator)>;

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_GRADIENT_REDUCER_H_
