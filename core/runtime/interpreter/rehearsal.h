// Dry runs of passes, before the first receive is posted on the device.
//
// When libraries first see a shape they create handles, choose algorithms and load kernels. Some of
// that waits for all work on the device, including receives posted before, whose senders may in
// turn be waiting for this rank. A rehearsed pass has no such waits later.
#ifndef DPIPE_CORE_RUNTIME_INTERPRETER_REHEARSAL_H_
#define DPIPE_CORE_RUNTIME_INTERPRETER_REHEARSAL_H_

#include <memory>
#include <tuple>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/nn/parameters.h"
#include "core/nn/program.h"
#include "core/tensor/device.h"

namespace dpipe {

// A forward pass over some layers, and the backward passes that follow it.
struct RehearsedPass {
  enum class Back { kNone, kWhole, kSplit };  // kWhole: BACKWARD; kSplit: INPUT_GRAD, WEIGHT_GRAD

  const nn::Program* program = nullptr;
  LayerRange layers;
  int samples = 0;
  // Frozen components have only `frozen`. Sharded stages have a set on demand.
  nn::ParameterSet* parameters = nullptr;
  const nn::ParameterSet* frozen = nullptr;
  bool on_demand = false;
  Back back = Back::kNone;

  friend bool operator<(const RehearsedPass& a, const RehearsedPass& b) {
    const auto key = [](const RehearsedPass& pass) {
      return std::make_tuple(pass.program, pass.layers, pass.samples, pass.parameters, pass.frozen,
                             pass.back);
    };
    return key(a) < key(b);
  }
};

// Runs the pass on zeros. Leaves the gradients zero, and a set on demand empty. Returns the passes'
// errors.
absl::Status Rehearse(const RehearsedPass& pass, const std::shared_ptr<Device>& device,
                      DType compute_dtype);

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_INTERPRETER_REHEARSAL_H_
