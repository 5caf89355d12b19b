// Compares the trainable text encoder with transformers: outputs and every gradient. See
// models/testdata/make_formula_goldens.py. ClipTextParityTest uses small models with both
// activations, ClipTextFullSizeTest the models of Stable Diffusion v1.5 and v2.1.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "models/clip_text/clip_text.h"
#include "models/testdata/formula_run.h"
#include "models/testdata/formula_weights.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {
namespace {

// Returns the states of the tokens in the golden: 0, 1, 6 and the last one of each sample.
Tensor SomeTokens(const Tensor& states) {
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < states.dim(0); ++i) {
    const Tensor sample = states.Slice(i, i + 1).Reshape(Shape({states.dim(1), states.dim(2)}));
    for (int64_t token : {int64_t{0}, int64_t{1}, int64_t{6}, states.dim(1) - 1}) {
      rows.push_back(sample.Slice(token, token + 1));
    }
  }
  return ConcatBatch(rows).Reshape(Shape({states.dim(0), 4, states.dim(2)}));
}

double SketchError(const Tensor& output, const Tensor& expected) {
  const float* e = expected.data<float>();
  Sketch sketch;
  std::copy_n(e + 1, kSketchSigns, sketch.dots.begin());
  return SketchDistance(SketchOf("output", output), sketch) / e[0];
}

void Check(const std::string& name, DType dtype, int num_parts = 1,
           DeviceKind kind = DeviceKind::kCpu) {
  const auto config = ParseClipTextConfig(ReadTestdata(name + ".json"), name);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto device = MakeDevice(kind);
  const int64_t length = config->max_positions;
  const auto program = BuildClipText(*config, length, nn::LayerKind::kTrainable);
  ASSERT_TRUE(program.ok()) << program.status();
  const Goldens goldens("models/testdata/" + name + ".safetensors", device);
  const Tensor ids =
      FormulaIds(device, "ids", static_cast<uint32_t>(config->vocab_size), Shape({2, length}));
  const Tensor output_gradient =
      FormulaInput(device, "output_gradient", Shape({2, length, config->hidden_size}));
  const FormulaRun run =
      RunWithFormulaWeights(*program, {{"ids", ids}}, output_gradient, {dtype, kind, num_parts});
  const double error = RelativeError(SomeTokens(run.output), goldens.Get("output"));
  const double whole_error = SketchError(run.output, goldens.Get("output_sketch"));
  const GradientErrors gradients = CompareGradients(run.gradients, goldens);
  ExpectWithin(BoundsOf(*program, dtype, goldens), absl::StrCat(name, " ", DTypeName(dtype)),
               std::max(error, whole_error), gradients, goldens);
}

TEST(ClipTextParityTest, Fp32) {
  for (const char* name : {"text_quick", "text_exact"}) {
    Check(name, DType::kF32);
    Check(name, DType::kF32, /*num_parts=*/1, DeviceKind::kCpuReference);
  }
}

TEST(ClipTextParityTest, Bf16) {
  for (const char* name : {"text_quick", "text_exact"}) Check(name, DType::kBf16);
}

// Runs a whole program, forward and backward from the gradients of several outputs.
struct OutputsAndGradients {
  std::map<std::string, Tensor> outputs;
  std::map<std::string, Sketch> gradients;
};
OutputsAndGradients RunAll(const nn::Program& program, const Tensor& ids, DType dtype,
                           const std::map<std::string, Tensor>& output_gradients) {
  nn::ParameterSet parameters(program, program.all_layers(), ids.device());
  SetFormulaWeights(&parameters);
  nn::ValueMap values = {{program.InputNamed("ids"), ids}}, grads;
  nn::RangeState state;
  const bool trains = !output_gradients.empty();
  EXPECT_TRUE(nn::Forward(program, program.all_layers(), parameters, {dtype}, &values,
                          trains ? &state : nullptr)
                  .ok());
  OutputsAndGradients run;
  for (const ValueId id : program.outputs()) run.outputs[program.value(id).name] = values.at(id);
  if (!trains) return run;
  for (const auto& [name, gradient] : output_gradients) {
    grads[program.OutputNamed(name)] = gradient.To(dtype);
  }
  EXPECT_TRUE(nn::Backward(program, program.all_layers(), &parameters, &state, &grads).ok());
  for (const nn::ParameterId id : parameters.trainable_ids()) {
    const std::string& name = program.parameter(id).name;
    run.gradients[name] = SketchOf(name, *parameters.grad(id));
  }
  return run;
}

// The penultimate states and the pooled output: with a projection, at the first of a named token
// (one of the two texts lacks it); and without, at the largest id.
void CheckPooled(const std::string& name, DType dtype, DeviceKind kind) {
  const auto config = ParseClipTextConfig(ReadTestdata(name + ".json"), name);
  ASSERT_TRUE(config.ok()) << config.status();
  const bool projects = config->with_projection;
  EXPECT_EQ(projects, name == "text_pooled");
  EXPECT_EQ(config->end_token.has_value(), projects);
  const auto device = MakeDevice(kind);
  const int64_t length = 20;
  const ClipTextOutputs outputs = {projects ? ClipStates::kPenultimate : ClipStates::kNone, true};
  const auto program = BuildClipText(*config, length, nn::LayerKind::kTrainable, outputs);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(ParametersOf({&*program}), ExpectedParameters(name + ".parameters"));
  const Goldens goldens("models/testdata/" + name + ".safetensors", device);
  const Tensor ids =
      FormulaIds(device, "ids", static_cast<uint32_t>(config->vocab_size), Shape({2, length}));
  const int64_t pooled_size = projects ? config->projection_size : config->hidden_size;
  const std::string pooled = projects ? "text_embeds" : "pooler_output";
  std::map<std::string, Tensor> gradients = {
      {pooled, FormulaInput(device, "output_gradient", Shape({2, pooled_size}))}};
  if (projects) {
    gradients["penultimate_hidden_state"] =
        FormulaInput(device, "penultimate_gradient", Shape({2, length, config->hidden_size}));
  }
  const OutputsAndGradients run = RunAll(*program, ids, dtype, gradients);
  double error = RelativeError(run.outputs.at(pooled), goldens.Get("output"));
  if (projects) {
    error = std::max(error, RelativeError(run.outputs.at("penultimate_hidden_state"),
                                          goldens.Get("penultimate")));
  }
  // The same states without the layers after them, and with the final norm.
  for (const auto& [states, golden] :
       {std::make_pair(ClipStates::kPenultimate, "penultimate"),
        std::make_pair(ClipStates::kPenultimateWithNorm, "penultimate_with_norm")}) {
    const auto part = BuildClipText(*config, length, nn::LayerKind::kFrozen, {states, false});
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_LT(part->num_parameters(), program->num_parameters());
    error = std::max(
        error, RelativeError(RunAll(*part, ids, dtype, {}).outputs.at("penultimate_hidden_state"),
                             goldens.Get(golden)));
  }
  ErrorBounds bounds = BoundsOf(*program, dtype, goldens);
  if (dtype == DType::kBf16) {
    bounds.output =
        std::min<double>(bounds.output, 3 * goldens.Get("bf16_errors").data<float>()[0]);
  }
  ExpectWithin(bounds, absl::StrCat(name, " ", DTypeName(dtype)), error,
               CompareGradients(run.gradients, goldens), goldens);
}

TEST(ClipTextParityTest, PooledFp32) {
  for (const char* name : {"text_pooled", "text_legacy"}) {
    CheckPooled(name, DType::kF32, DeviceKind::kCpu);
    CheckPooled(name, DType::kF32, DeviceKind::kCpuReference);
  }
}

TEST(ClipTextParityTest, PooledBf16) {
  for (const char* name : {"text_pooled", "text_legacy"}) {
    CheckPooled(name, DType::kBf16, DeviceKind::kCpu);
  }
}

TEST(ClipTextFullSizeTest, V15Fp32) { Check("text_v15", DType::kF32, 2); }
TEST(ClipTextFullSizeTest, V15Bf16) { Check("text_v15", DType::kBf16, 2); }
TEST(ClipTextFullSizeTest, V21Fp32) { Check("text_v21", DType::kF32, 4); }
TEST(ClipTextFullSizeTest, V21Bf16) { Check("text_v21", DType::kBf16, 4); }

}  // namespace
}  // namespace dpipe::models
