// For tests: compares a training step of a pixel U-Net with diffusers (testdata/make_goldens.py).
#ifndef DPIPE_MODELS_PIXEL_UNET_GOLDEN_CASE_H_
#define DPIPE_MODELS_PIXEL_UNET_GOLDEN_CASE_H_

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/files/file.h"
#include "core/nn/execution.h"
#include "gtest/gtest.h"
#include "models/pixel_unet/pixel_unet.h"
#include "models/testdata/formula_weights.h"
#include "models/testdata/golden_check.h"

namespace dpipe::models {

struct GoldenCase {
  std::string name;
  std::string group;        // file: "small" or "full"
  std::string config_path;  // of a config.json
  int side = 0;             // side of the golden's image in pixels
};

// Maximum relative errors. The golden has two numbers per parameter's gradient: its norm, and its
// product with a vector. The product's error is relative to |gradient| rms(vector), the mean error
// of the product if the gradient has that relative error.
struct GoldenErrors {
  double prediction = 0, loss = 0, gradient_norm = 0, gradient_product = 0;
};

inline diffusion::NoiseSchedule CosineSchedule() {
  diffusion::NoiseScheduleOptions options;
  options.beta_schedule = diffusion::BetaSchedule::kSquaredCosCapV2;
  const auto schedule = diffusion::NoiseSchedule::Create(options);
  DPIPE_CHECK(schedule.ok()) << schedule.status();
  return *schedule;
}

// weight(name + "#") of make_goldens.py: the vector by which a gradient is multiplied.
inline Tensor Direction(const std::string& name, const Tensor& parameter) {
  uint32_t key = 2166136261u;
  for (char c : name + "#") key = (key ^ static_cast<unsigned char>(c)) * 16777619u;
  const double fan_in = static_cast<double>(parameter.num_elements() / parameter.dim(0));
  const double scale = parameter.shape().rank() == 1 ? 0.2 : std::sqrt(1.5 / fan_in);
  Tensor direction = Tensor::Empty(parameter.device(), parameter.shape(), DType::kF32);
  uint32_t index = 0;
  for (float& x : direction.span<float>()) {
    uint32_t mixed = (index++ + key) * 2654435761u;
    mixed = (mixed ^ (mixed >> 15)) * 2246822519u;
    x = static_cast<float>(((mixed >> 8) / 8388608.0 - 1) * scale);
  }
  return direction;
}

// Returns the norm to which errors of a parameter's gradient are relative: usually its own. The
// bias of the keys has no gradient, because softmax ignores a constant added to all scores of a
// query. Its rounding errors are relative to the queries' gradient. If attention has a single
// position, queries and keys have no gradient either, and their rounding errors are relative to the
// values' gradient.
inline constexpr double kVanishing = 1e-5;
inline double SizeOf(const Goldens& goldens, const std::string& prefix, std::string name) {
  const auto norm = [&](const std::string& of) {
    return static_cast<double>(goldens.Get(prefix + of).data<float>()[0]);
  };
  const std::string keys = ".to_k.bias";
  if (absl::EndsWith(name, keys))
    name.replace(name.size() - keys.size(), keys.size(), ".to_q.bias");
  for (const char* part : {".to_q.", ".to_k."}) {
    if (!absl::StrContains(name, part)) continue;
    const double values = norm(absl::StrReplaceAll(name, {{part, ".to_v."}}));
    if (norm(name) < kVanishing * values) return values;
  }
  return norm(name);
}

// Returns the larger one; a NaN is kept.
inline double Worse(double a, double b) { return b <= a ? a : b; }

// Runs forward and backward passes of the whole program. Frees memory as it goes, because full-size
// models leave only a few GB.
inline GoldenErrors MeasureGolden(const GoldenCase& c, DType dtype,
                                  const std::shared_ptr<Device>& device) {
  const auto config = ReadPixelUNetConfig(c.config_path);
  DPIPE_CHECK(config.ok()) << config.status();
  const Goldens goldens("models/pixel_unet/testdata/" + c.group + ".safetensors", device);
  PixelUNetOptions options;
  options.height = options.width = c.side;
  if (config->noise_level_embed) options.low_height = options.low_width = c.side / 4;
  options.self_conditioning = false;
  const auto program =
      BuildPixelUNetForTraining(*config, options, {CosineSchedule(), 0, CosineSchedule()});
  DPIPE_CHECK(program.ok()) << program.status();
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  SetFormulaWeights(&parameters);
  nn::ValueMap values;
  for (ValueId id : program->inputs()) {
    values[id] = goldens.Get(c.name + "/" + program->value(id).name);
  }
  const LayerRange all = program->all_layers();
  const LayerRange model = {0, program->num_layers() - 1};  // all but the loss
  nn::RangeState state, loss_state;
  absl::Status status = nn::Forward(*program, model, parameters, {dtype}, &values, &state);
  DPIPE_CHECK(status.ok()) << status;
  const ValueId prediction = program->LiveAt(model.end)[0];
  GoldenErrors errors;
  errors.prediction = RelativeError(values.at(prediction), goldens.Get(c.name + "/prediction"));
  const LayerRange last = {model.end, all.end};
  status = nn::Forward(*program, last, parameters, {dtype}, &values, &loss_state);
  DPIPE_CHECK(status.ok()) << status;
  const ValueId loss = program->OutputNamed("loss");
  errors.loss = RelativeError(values.at(loss), goldens.Get(c.name + "/losses"));
  nn::ValueMap grads = {{loss, Tensor::FromHost<float>(device, Shape({2}), {0.5f, 0.5f})}};
  status = nn::Backward(*program, last, &parameters, &loss_state, &grads);
  DPIPE_CHECK(status.ok()) << status;
  status = nn::Backward(*program, model, &parameters, &state, &grads);
  DPIPE_CHECK(status.ok()) << status;
  for (nn::ParameterId id : parameters.trainable_ids()) {
    const std::string& name = program->parameter(id).name;
    const Tensor expected = goldens.Get(c.name + "/gradient/" + name);
    const Tensor& grad = *parameters.grad(id);
    const Tensor direction = Direction(name, grad);
    const float* const g = grad.data<float>();
    const float* const d = direction.data<float>();
    double product = 0;
    for (int64_t i = 0; i < grad.num_elements(); ++i) product += double{g[i]} * d[i];
    const double expected_norm = expected.data<float>()[0];
    const double norm = SizeOf(goldens, c.name + "/gradient/", name);
    const double scale =
        norm * Norm(direction) / std::sqrt(static_cast<double>(grad.num_elements()));
    errors.gradient_norm =
        Worse(errors.gradient_norm, std::fabs(Norm(grad) - expected_norm) / norm);
    errors.gradient_product =
        Worse(errors.gradient_product, std::fabs(product - expected.data<float>()[1]) / scale);
  }
  ::testing::Test::RecordProperty(
      absl::StrCat(c.name, "_", DTypeName(dtype)),
      absl::StrCat("prediction ", errors.prediction, ", loss ", errors.loss, ", gradient norm ",
                   errors.gradient_norm, ", product ", errors.gradient_product));
  return errors;
}

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_PIXEL_UNET_GOLDEN_CASE_H_
