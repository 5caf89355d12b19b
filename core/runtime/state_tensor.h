// What a training run must remember from one step to the next, tensor by tensor, by names that do
// not depend on the plan: stages, ranks, replicas and shards leave no trace in it.
#ifndef DPIPE_CORE_RUNTIME_STATE_TENSOR_H_
#define DPIPE_CORE_RUNTIME_STATE_TENSOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "core/nn/parameters.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// The kinds that the runtime itself knows; an optimizer names its own.
inline constexpr char kWeightKind[] = "weight";    // fp32 masters
inline constexpr char kAverageKind[] = "average";  // of the weights, where one is kept

// A tensor of the state, or the part of it that one rank has.
struct StateTensor {
  std::string kind;       // "weight", "average", or one of the optimizer's: "m", "v"
  std::string parameter;  // the parameter's name
  Shape whole;            // of the entire tensor
  // The part has elements [begin, begin + part.num_elements()) of it, counted in row order.
  int64_t begin = 0;
  // Shares storage with the run's own, or is a copy in the host's memory of what the run has in
  // another form.
  Tensor part;
  // The part is a copy that nobody else reads or writes.
  bool is_private = false;

  int64_t end() const { return begin + part.num_elements(); }
};

// A state with one number for each of a parameter's: `tensor` is shaped as `part` says.
inline StateTensor ElementwiseState(std::string kind, std::string parameter,
                                    const nn::ParameterPart& part, Tensor tensor) {
  const int64_t begin = part.is_shard ? part.shard.Begin(part.whole.num_elements()) : 0;
  return {std::move(kind), std::move(parameter), part.whole, begin, std::move(tensor)};
}

// Fills state.part with what a state of that kind and parameter has there. Called by several
// threads at a time. NotFound or InvalidArgument names what does not fit.
using StateReader = std::function<absl::Status(const StateTensor& state)>;

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_STATE_TENSOR_H_
