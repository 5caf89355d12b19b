// Runs a model with weights from a formula and compares it with what PyTorch computed, for tests.
// See make_formula_goldens.py.
//
// Errors are relative in the L2 norm: |ours - theirs| / |theirs|, of an output and of each
// parameter's gradient by itself; a gradient's is estimated by its sketch.
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
  // The layers run in this many parts with about equal weights, of which one part's weights and
  // gradients are in memory at a time. The numbers do not depend on it (core/nn/execution.h).
  int num_parts = 1;
};

struct FormulaRun {
  Tensor output;                            // the program's only one
  std::map<std::string, Sketch> gradients;  // by parameter
};

// `inputs` by name; floats are given in fp32 and converted as the program wants them. The output's
// gradient likewise; undefined: the forward pass alone.
FormulaRun RunWithFormulaWeights(const nn::Program& program,
                                 const std::map<std::string, Tensor>& inputs,
                                 const Tensor& output_gradient, const FormulaRunOptions& options);

std::shared_ptr<Device> MakeDevice(DeviceKind kind);

struct GradientErrors {
  // Of the parameters whose gradient is not zero by rights: the root mean square of their errors,
  // and the largest.
  double mean = 0;
  double worst = 0;
  std::string worst_name;
  // Of those that are, to which only rounding contributes (biases of an attention's keys): their
  // largest norm relative to the largest of all gradients' norms.
  double vanishing = 0;
  int count = 0;  // of parameters
};

// With the golden's "gradient_sketches". Dies where the numbers of parameters differ.
GradientErrors CompareGradients(const std::map<std::string, Sketch>& gradients,
                                const Goldens& goldens);

// What may go wrong. In fp32: 1e-4, everywhere. In bf16, of the output and of the gradients' root
// mean square: a node rounds its output and reads rounded
// weights, each by at most 2^-9 of the number; taken as independent and passed on with unchanged
// relative size, 2n such errors of n nodes in a row amount to 2^-9 sqrt(2n), where n counts all
// nodes of the program. The backward pass goes the same way again, on values that the forward pass
// has rounded: twice as many. How much a single gradient loses in bf16 depends on what cancels in
// its sums, for which there is no such number: it may lose twice what the worst one loses in
// PyTorch's own bf16 (the golden's "bf16_errors").
struct ErrorBounds {
  double output, gradient_mean, gradient_worst;
};
ErrorBounds BoundsOf(const nn::Program& program, DType dtype, const Goldens& goldens);

// Expects errors below the bounds, and prints them beside PyTorch's own where they are bf16's.
void ExpectWithin(const ErrorBounds& bounds, const std::string& what, double output_error,
                  const GradientErrors& gradients, const Goldens& goldens);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_TESTDATA_FORMULA_RUN_H_
