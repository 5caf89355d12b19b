// State of a training run between steps, tensor by tensor, with names that do not depend on the
// plan: it contains no trace of stages, ranks, replicas or shards.
#ifndef DPIPE_CORE_RUNTIME_STATE_TENSOR_H_
#define DPIPE_CORE_RUNTIME_STATE_TENSOR_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "core/nn/parameters.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// The kinds that the runtime itself knows; an optimizer defines others.
inline constexpr char kWeightKind[] = "weight";    // fp32 masters
inline constexpr char kAverageKind[] = "average";  // of the weights, if there is one

// A tensor of the state, or one rank's part of it.
struct StateTensor {
  std::string kind;       // "weight", "average", or one of the optimizer's: "m", "v"
  std::string parameter;  // the parameter's name
  Shape whole;            // of the entire tensor
  // The part has elements [begin, begin + part.num_elements()) of the tensor, in row-major order.
  int64_t begin = 0;
  // Shares storage with the run, or is a copy in the host's memory of state that the run stores in
  // another form.
  Tensor part;
  // The part is a private copy: no other code reads or writes it.
  bool is_private = false;

  int64_t end() const { return begin + part.num_elements(); }
};

// Returns a state with one number per element of a parameter. `tensor` has the shape of `part`.
inline StateTensor ElementwiseState(std::string kind, std::string parameter,
                                    const nn::ParameterPart& part, Tensor tensor) {
  const int64_t begin = part.is_shard ? part.shard.Begin(part.whole.num_elements()) : 0;
  return {std::move(kind), std::move(parameter), part.whole, begin, std::move(tensor)};
}

// Fills state.part with the saved state of that kind and parameter. Called by several threads at a
// time. Returns NotFound or InvalidArgument, naming the mismatch.
using StateReader = std::function<absl::Status(const StateTensor& state)>;

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_STATE_TENSOR_H_
