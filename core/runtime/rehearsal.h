// Passes that are run once for nothing, before anything lies on the device that waits for others.
//
// When libraries first meet a shape they make handles, choose algorithms and load kernels, and some
// of that waits until all that was put on the device is done: also the receives that were posted
// before, whose senders may be waiting for this rank in turn. What has been rehearsed is met again.
#ifndef DPIPE_CORE_RUNTIME_REHEARSAL_H_
#define DPIPE_CORE_RUNTIME_REHEARSAL_H_

#include <memory>
#include <tuple>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/nn/parameters.h"
#include "core/nn/program.h"
#include "core/tensor/device.h"

namespace dpipe {

// A forward pass over some layers, and the passes back that come after it.
struct RehearsedPass {
  enum class Back { kNone, kWhole, kSplit };  // kWhole: BACKWARD; kSplit: INPUT_GRAD, WEIGHT_GRAD

  const nn::Program* program = nullptr;
  LayerRange layers;
  int samples = 0;
  // Of frozen components only the second. Of sharded stages, a set on demand.
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

// On zeros. Leaves the gradients zero, and of a set on demand nothing. Errors are the passes'.
absl::Status Rehearse(const RehearsedPass& pass, const std::shared_ptr<Device>& device,
                      DType compute_dtype);

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_REHEARSAL_H_
