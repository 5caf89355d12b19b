#include "models/testdata/formula_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "core/base/check.h"
#include "gtest/gtest.h"
#include "models/testdata/formula_weights.h"

namespace dpipe::models {
namespace {

// Returns consecutive ranges of layers with about equal weights.
std::vector<LayerRange> Parts(const nn::Program& program, int count) {
  const double share = static_cast<double>(program.ParameterBytes(program.all_layers())) / count;
  std::vector<LayerRange> parts;
  int begin = 0;
  for (int end = 1; end <= program.num_layers(); ++end) {
    const bool is_full = program.ParameterBytes({begin, end}) >= share;
    if (end < program.num_layers() && !is_full) continue;
    parts.push_back({begin, end});
    begin = end;
  }
  return parts;
}

// Uses a separate device, so that its memory is returned to the system with it.
std::unique_ptr<nn::ParameterSet> MakeWeights(const nn::Program& program, LayerRange part,
                                              DeviceKind kind) {
  auto weights = nn::ParameterSet::OnDemand(program, part, MakeDevice(kind));
  weights->AllocateMasters(part);
  SetFormulaWeights(weights.get());
  return weights;
}

Tensor Converted(const nn::Program& program, ValueId id, const Tensor& tensor, DType dtype) {
  const DType wanted = nn::ResolveElement(program.value(id).type.element, dtype);
  return tensor.dtype() == wanted ? tensor : tensor.To(wanted);
}

// Returns the larger one; infinity for a NaN.
double Worse(double a, double b) { return std::isnan(b) ? INFINITY : std::max(a, b); }

}  // namespace

std::shared_ptr<Device> MakeDevice(DeviceKind kind) {
  return kind == DeviceKind::kCpuReference ? Device::CpuReference() : Device::Cpu();
}

FormulaRun RunWithFormulaWeights(const nn::Program& program,
                                 const std::map<std::string, Tensor>& inputs,
                                 const Tensor& output_gradient, const FormulaRunOptions& options) {
  DPIPE_CHECK_EQ(program.outputs().size(), 1u);
  const ValueId output = program.outputs()[0];
  const bool trains = output_gradient.defined();
  nn::ValueMap values, grads;
  for (const auto& [name, tensor] : inputs) {
    const ValueId id = program.InputNamed(name);
    values[id] = Converted(program, id, tensor, options.dtype);
  }
  const std::vector<LayerRange> parts = Parts(program, options.num_parts);
  std::vector<nn::RangeState> states(parts.size());
  std::unique_ptr<nn::ParameterSet> weights;
  for (size_t p = 0; p < parts.size(); ++p) {
    weights.reset();
    weights = MakeWeights(program, parts[p], options.device);
    const absl::Status status = nn::Forward(program, parts[p], *weights, {options.dtype}, &values,
                                            trains ? &states[p] : nullptr);
    DPIPE_CHECK(status.ok()) << status;
  }
  FormulaRun run;
  run.output = values.at(output);
  if (!trains) return run;
  grads[output] = Converted(program, output, output_gradient, options.dtype);
  for (size_t p = parts.size(); p-- > 0;) {
    if (p + 1 < parts.size()) {  // otherwise they are still there
      weights.reset();
      weights = MakeWeights(program, parts[p], options.device);
    }
    weights->AllocateGrads(parts[p]);
    const absl::Status status = nn::Backward(program, parts[p], weights.get(), &states[p], &grads);
    DPIPE_CHECK(status.ok()) << status;
    for (nn::ParameterId id : weights->trainable_ids()) {
      const std::string& name = program.parameter(id).name;
      run.gradients[name] = SketchOf(name, *weights->grad(id));
    }
  }
  return run;
}

GradientErrors CompareGradients(const std::map<std::string, Sketch>& gradients,
                                const Goldens& goldens) {
  // Rows [parameters, 1 + signs], sorted by name like the map.
  const Tensor rows = goldens.Get("gradient_sketches");
  DPIPE_CHECK_EQ(rows.dim(0), static_cast<int64_t>(gradients.size()));
  DPIPE_CHECK_EQ(rows.dim(1), 1 + kSketchSigns);
  double largest = 0;
  for (int64_t i = 0; i < rows.dim(0); ++i) {
    largest = std::max(largest, double{rows.data<float>()[i * (1 + kSketchSigns)]});
  }
  GradientErrors errors;
  double sum_of_squares = 0;
  int num_compared = 0;
  const float* row = rows.data<float>();
  for (const auto& [name, sketch] : gradients) {
    Sketch expected;
    expected.norm = row[0];
    std::copy_n(row + 1, kSketchSigns, expected.dots.begin());
    row += 1 + kSketchSigns;
    ++errors.count;
    if (expected.norm < 1e-10 * largest) {
      errors.vanishing = Worse(errors.vanishing, sketch.norm / largest);
      continue;
    }
    const double error =
        std::max(SketchDistance(sketch, expected), std::fabs(sketch.norm - expected.norm)) /
        expected.norm;
    ++num_compared;
    sum_of_squares += error * error;
    if (Worse(errors.worst, error) == errors.worst) continue;
    errors.worst = error;
    errors.worst_name = name;
  }
  errors.mean = std::sqrt(sum_of_squares / std::max(num_compared, 1));
  return errors;
}

ErrorBounds BoundsOf(const nn::Program& program, DType dtype, const Goldens& goldens) {
  if (dtype == DType::kF32) return kFp32Bounds;
  const double num_nodes =
      static_cast<double>(program.num_values()) - static_cast<double>(program.inputs().size());
  const double pytorch_worst = goldens.Get("bf16_errors").data<float>()[2];
  return {std::sqrt(2 * num_nodes) / 512, std::sqrt(4 * num_nodes) / 512, 2 * pytorch_worst};
}

void ExpectWithin(const ErrorBounds& bounds, const std::string& what, double output_error,
                  const GradientErrors& gradients, const Goldens& goldens) {
  std::printf("%s: output %.1e, gradients %.1e, worst %.1e (%s); bounds %.1e, %.1e, %.1e",
              what.c_str(), output_error, gradients.mean, gradients.worst,
              gradients.worst_name.c_str(), bounds.output, bounds.gradient_mean,
              bounds.gradient_worst);
  if (bounds.output > 1e-4) {
    const Tensor pytorch = goldens.Get("bf16_errors");
    const float* errors = pytorch.data<float>();
    std::printf("; PyTorch's bf16 %.1e, %.1e, %.1e", errors[0], errors[1], errors[2]);
  }
  std::printf("\n");
  EXPECT_LT(output_error, bounds.output) << what;
  EXPECT_LT(gradients.mean, bounds.gradient_mean) << what;
  EXPECT_LT(gradients.worst, bounds.gradient_worst) << what << " " << gradients.worst_name;
  EXPECT_LE(gradients.vanishing, bounds.gradient_mean) << what;
}

}  // namespace dpipe::models
