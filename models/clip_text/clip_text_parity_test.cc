// Compares the trainable text encoder with transformers: outputs and every gradient. See
// models/testdata/make_formula_goldens.py. ClipTextParityTest uses small models with both
// activations, ClipTextFullSizeTest the models of Stable Diffusion v1.5 and v2.1.
#include <algorithm>

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

TEST(ClipTextFullSizeTest, V15Fp32) { Check("text_v15", DType::kF32, 2); }
TEST(ClipTextFullSizeTest, V15Bf16) { Check("text_v15", DType::kBf16, 2); }
TEST(ClipTextFullSizeTest, V21Fp32) { Check("text_v21", DType::kF32, 4); }
TEST(ClipTextFullSizeTest, V21Bf16) { Check("text_v21", DType::kBf16, 4); }

}  // namespace
}  // namespace dpipe::models
