// Checks of whole programs, for tests of nodes and models.
#ifndef DPIPE_CORE_NN_GRADIENT_CHECK_H_
#define DPIPE_CORE_NN_GRADIENT_CHECK_H_

#include <cstdint>
#include <memory>

#include "core/base/status.h"
#include "core/nn/execution.h"

namespace dpipe::nn {

// Every external input of a program, `batch` samples: floats standard normal, integers uniform in
// [0, int_bound).
ValueMap RandomInputs(const Program& program, const std::shared_ptr<Device>& device, int64_t batch,
                      DType compute_dtype, int int_bound, uint64_t seed);

struct GradientCheckOptions {
  uint64_t seed = 1;
  // Central differences D(h) = (L(p + h d) - L(p - h d)) / 2h along a direction d of +-1 in every
  // element, extrapolated as (4 D(h/2) - D(h)) / 3. h = `step` / sqrt(elements): large enough for
  // fp32, whose rounding is divided by h.
  double step = 2e-2;
  // Allowed |difference - gradient . d|, relative to the root mean square of both over all
  // parameters or to their own size, whichever is larger.
  double tolerance = 1e-2;
  int directions = 2;  // per parameter
};

// Compares the parameters' gradients with finite differences of L, the outputs' sum with random
// weights, all in fp32. Parameters are restored. The error names the parameter and both numbers.
absl::Status CheckGradients(const Program& program, ParameterSet* parameters,
                            const ValueMap& inputs, const GradientCheckOptions& options);

// Runs the program whole, then at every `stride`-th cut in two parts that exchange only what
// LiveAt and GradientsAt say, and with backward passes cut and split in several ways; outputs and
// parameter gradients must have the same bits. The error names the cut and what differs.
absl::Status CheckSplits(const Program& program, ParameterSet* parameters, const ValueMap& inputs,
                         const RunOptions& options, uint64_t seed, int stride = 1);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_GRADIENT_CHECK_H_
