// How REDUCE_GRADS reduces gradients that every rank of a stage holds whole.
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

// Belongs to one rank and is used by its thread. State kept between steps is not saved with a run.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  // Starts to replace `gradients` (fp32) by approximately their sum over the group, with the same
  // bits on every rank of it. Each `what` is used with the same gradients in every step, and is
  // waited for before its next use. The caller waits in the order of starting: Wait may
  // communicate.
  virtual Communicator::StartedCollective Start(absl::Span<const Rank> group,
                                                std::vector<Tensor> gradients,
                                                const std::string& what) = 0;
};

// Creates the reducer of one rank. The communicator outlives it.
using GradientReducerFactory =
    std::function<std::unique_ptr<GradientReducer>(Communicator* communicator)>;

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_GRADIENT_REDUCER_H_
