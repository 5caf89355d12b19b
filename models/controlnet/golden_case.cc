#include "models/controlnet/golden_case.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/nn/execution.h"
#include "core/nn/parameters.h"
#include "models/controlnet/controlnet.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/testdata/formula_weights.h"
#include "models/testdata/golden_check.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {
namespace {

const UNetShape kShape = {8, 8, 5};

void Run(const nn::Program& program, const nn::ParameterSet& parameters, DType dtype,
         nn::ValueMap* values, nn::RangeState* state) {
  const absl::Status status =
      nn::Forward(program, program.all_layers(), parameters, {dtype}, values, state);
  DPIPE_CHECK(status.ok()) << status;
}

// The locked encoder's weights are named without the prefix, but the formula uses it.
void SetLockedWeights(nn::ParameterSet* parameters) {
  for (nn::ParameterId id : parameters->ids()) {
    SetFormulaWeight(kDecoderPrefix + parameters->program().parameter(id).name, id, parameters);
  }
}

// Returns the inputs that are in the goldens.
nn::ValueMap GoldenInputs(const nn::Program& program, const ControlNetGolden& c,
                          const Goldens& goldens, DType dtype) {
  nn::ValueMap values;
  for (ValueId id : program.inputs()) {
    const std::string& name = program.value(id).name;
    if (name == "time" || name == "middle" || absl::StartsWith(name, "skip_")) continue;
    const Tensor t = goldens.Get(c.name + "/" + name);
    const bool are_floats =
        name == "timesteps" && program.value(id).type.element == nn::Element::kF32;
    values[id] = name == "context" ? t.To(dtype) : are_floats ? Goldens::ToFloats(t) : t;
  }
  return values;
}

Tensor Predict(const ControlNetGolden& c, const Goldens& goldens, DType dtype,
               const std::shared_ptr<Device>& device) {
  const auto program = BuildControlNetForInference(GoldenControlNet(c), GoldenUNet(c), kShape);
  DPIPE_CHECK(program.ok()) << program.status();
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  SetFormulaWeights(&parameters);
  nn::ValueMap values = GoldenInputs(*program, c, goldens, dtype);
  Run(*program, parameters, dtype, &values, nullptr);
  return values.at(program->OutputNamed("prediction"));
}

// Returns the locked encoder's outputs by name.
std::map<std::string, Tensor> EncodeLocked(const ControlNetGolden& c, const Goldens& goldens,
                                           const diffusion::Objective& objective, DType dtype,
                                           const std::shared_ptr<Device>& device) {
  const auto program = BuildLockedEncoder(GoldenUNet(c), kShape, objective);
  DPIPE_CHECK(program.ok()) << program.status();
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  SetLockedWeights(&parameters);
  nn::ValueMap values = GoldenInputs(*program, c, goldens, dtype);
  Run(*program, parameters, dtype, &values, nullptr);
  std::map<std::string, Tensor> outputs;
  for (ValueId id : program->outputs()) outputs[program->value(id).name] = values.at(id);
  return outputs;
}

// If the mid block has one pixel, a token attends only to itself, and no gradient reaches its query
// and key. Errors of norms below this share of the largest norm are relative to that share.
constexpr double kVanishing = 1e-9;

void CompareGradients(const ControlNetGolden& c, const Goldens& goldens,
                      const nn::ParameterSet& parameters, ControlNetGoldenErrors* errors) {
  auto expected_norm = [&](nn::ParameterId id) -> double {
    return goldens.Scalar(c.name + "/gradient_norm/" + parameters.program().parameter(id).name);
  };
  double largest = 0;
  for (nn::ParameterId id : parameters.trainable_ids()) {
    largest = std::max(largest, expected_norm(id));
  }
  for (nn::ParameterId id : parameters.trainable_ids()) {
    const double expected = std::max(expected_norm(id), kVanishing * largest);
    const double error = std::fabs(Norm(parameters.grad(id)) - expected_norm(id)) / expected;
    if (!(error <= errors->gradient_norm)) {
      errors->gradient_norm = error;
      errors->worst_gradient = parameters.program().parameter(id).name;
    }
  }
}

}  // namespace

ControlNetConfig GoldenControlNet(const ControlNetGolden& c) {
  const auto config = ReadControlNetConfig("models/controlnet/testdata/" + c.name + ".json");
  DPIPE_CHECK(config.ok()) << config.status();
  return *config;
}

UNetConfig GoldenUNet(const ControlNetGolden& c) {
  const auto config = ParseUNetConfig(ReadTestdata(c.unet + ".json"), c.unet);
  DPIPE_CHECK(config.ok()) << config.status();
  return *config;
}

ControlNetGoldenErrors MeasureControlNetGolden(const ControlNetGolden& c, DType dtype,
                                               const std::shared_ptr<Device>& device) {
  const Goldens goldens("models/controlnet/testdata/" + c.file, device);
  ControlNetGoldenErrors errors;
  if (c.with_prediction) {
    errors.prediction =
        RelativeError(Predict(c, goldens, dtype, device), goldens.Get(c.name + "/prediction"));
  }
  diffusion::NoiseScheduleOptions options;
  options.prediction_type = c.type;
  const auto schedule = diffusion::NoiseSchedule::Create(options);
  DPIPE_CHECK(schedule.ok()) << schedule.status();
  const auto locked =
      EncodeLocked(c, goldens, diffusion::DiffusionObjective(*schedule), dtype, device);
  const auto program = BuildControlNetForTraining(GoldenControlNet(c), GoldenUNet(c), kShape,
                                                  diffusion::DiffusionObjective(*schedule));
  DPIPE_CHECK(program.ok()) << program.status();
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  SetFormulaWeights(&parameters);
  nn::ValueMap values = GoldenInputs(*program, c, goldens, dtype);
  for (const auto& [name, tensor] : locked) values[program->InputNamed(name)] = tensor;
  nn::RangeState state;
  Run(*program, parameters, dtype, &values, &state);
  const ValueId loss = program->OutputNamed("loss");
  const Tensor expected = goldens.Get(c.name + "/losses");
  errors.loss = RelativeError(values.at(loss), expected);
  Tensor seed = Tensor::Empty(device, expected.shape(), DType::kF32);
  for (float& g : seed.span<float>()) g = 1.0f / expected.num_elements();
  nn::ValueMap grads = {{loss, seed}};
  const absl::Status backward =
      nn::Backward(*program, program->all_layers(), &parameters, &state, &grads);
  DPIPE_CHECK(backward.ok()) << backward;
  CompareGradients(c, goldens, parameters, &errors);
  return errors;
}

}  // namespace dpipe::models
