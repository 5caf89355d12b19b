// Checks of whole programs, for tests of nodes and models.
#ifndef DPIPE_CORE_NN_TESTING_GRADIENT_CHECK_H_
#define DPIPE_CORE_NN_TESTING_GRADIENT_CHECK_H_

#include <cstdint>
#include <memory>

#include "core/base/status.h"
#include "core/nn/execution.h"

namespace dpipe::nn {

// Returns random tensors for all external inputs of a program, with `batch` samples. Floats are
// standard normal, integers uniform in [0, int_bound).
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

// Compares the parameters' gradients with finite differences of L, a randomly weighted sum of the
// outputs, all in fp32. Restores the parameters. The error names the parameter and both numbers.
absl::Status CheckGradients(const Program& program, ParameterSet* parameters,
                            const ValueMap& inputs, const GradientCheckOptions& options);

// Checks that cutting a program does not change a bit of the outputs or parameter gradients. Runs
// the program whole, and then for every `stride`-th cut:
//
// 1. in two parts that exchange only the values of LiveAt and GradientsAt,
// 2. with one forward pass and the backward pass in two ranges,
// 3. with InputGrad in two ranges and WeightGrad separately, front to back.
//
// The error names the cut and the output or parameter that differs.
absl::Status CheckSplits(const Program& program, ParameterSet* parameters, const ValueMap& inputs,
                         const RunOptions& options, uint64_t seed, int stride = 1);

// Both checks of a program, with random parameters and 3 random samples, on a CPU that fills what
// it allocates with NaN; CheckSplits in fp32 and in bf16. Integers are uniform in [0, int_bound).
absl::Status CheckGradientsAndSplits(const Program& program, int int_bound = 1);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_TESTING_GRADIENT_CHECK_H_
