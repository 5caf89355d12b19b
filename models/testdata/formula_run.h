// For tests: runs a model with weights from a formula and compares it with PyTorch. See
// make_formula_goldens.py.
//
// Errors are relative in the L2 norm, |ours - theirs| / |theirs|, separately for the output and for
// each parameter's gradient. A gradient's error is estimated from its sketch.
#ifndef DPIPE_MODELS_TESTDATA_FORMULA_RUN_H_
#define DPIPE_MODELS_TESTDATA_FORMULA_RUN_H_

#include <map>
#include <memory>
#include <string>

#include "core/nn/execution.h"
#include "models/testdata/golden_check.h"
#include "models/testdata/sketch.h"

namespace dpipe::models {

struct FormulaRunOptions {
  DType dtype = DType::kF32;
  DeviceKind device = DeviceKind::kCpu;
  // The layers run in this many parts of about equal weights; only one part's weights and gradients
  // are in memory at a time. Results do not depend on it (core/nn/execution.h).
  int num_parts = 1;
};

struct FormulaRun {
  Tensor output;                            // the program's only output
  std::map<std::string, Sketch> gradients;  // by parameter
};

// `inputs` are by name; floats are given in fp32 and converted to the program's types, and so is
// the output's gradient. If the gradient is undefined, only the forward pass runs.
FormulaRun RunWithFormulaWeights(const nn::Program& program,
                                 const std::map<std::string, Tensor>& inputs,
                                 const Tensor& output_gradient, const FormulaRunOptions& options);

std::shared_ptr<Device> MakeDevice(DeviceKind kind);

struct GradientErrors {
  // Root mean square and maximum of the errors of parameters whose exact gradient is not zero.
  double mean = 0;
  double worst = 0;
  std::string worst_name;
  // Maximum norm of the other gradients, to which only rounding contributes (biases of an
  // attention's keys), relative to the maximum norm of all gradients.
  double vanishing = 0;
  int count = 0;  // of parameters
};

// Compares with the golden's "gradient_sketches". Fails a CHECK if the numbers of parameters
// differ.
GradientErrors CompareGradients(const std::map<std::string, Sketch>& gradients,
                                const Goldens& goldens);

// Bounds of the errors. In fp32: three times the maxima over all models, which full-size U-Nets
// have.
//
// In bf16, for the output and the gradients' root mean square: a node rounds its output and reads
// rounded weights, each by at most 2^-9 of the number. If these errors are independent and keep
// their relative size, the 2n errors of n nodes in a row amount to 2^-9 sqrt(2n); n counts all
// nodes of the program. The backward pass takes the same way back, on values that the forward pass
// has rounded: twice as many errors.
//
// A single gradient's error in bf16 depends on the cancellation in its sums, for which there is no
// such number. Its bound is twice the worst error of PyTorch's own bf16 (the golden's
// "bf16_errors").
struct ErrorBounds {
  double output, gradient_mean, gradient_worst;
};
inline constexpr ErrorBounds kFp32Bounds = {6e-6, 8e-6, 2.5e-5};
ErrorBounds BoundsOf(const nn::Program& program, DType dtype, const Goldens& goldens);

// Expects errors below the bounds; for bf16, prints them beside PyTorch's own.
void ExpectWithin(const ErrorBounds& bounds, const std::string& what, double output_error,
                  const GradientErrors& gradients, const Goldens& goldens);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TESTDATA_FORMULA_RUN_H_
