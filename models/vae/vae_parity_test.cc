// Compares the trainable VAE encoder and decoder with diffusers: outputs and every gradient. See
// models/testdata/make_formula_goldens.py. VaeParityTest uses a small model, VaeFullSizeTest Stable
// Diffusion's.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "models/testdata/formula_run.h"
#include "models/testdata/formula_weights.h"
#include "models/testdata/parameter_list.h"
#include "models/vae/vae.h"

namespace dpipe::models {
namespace {

struct Case {
  std::string config, half;  // half is "encoder" or "decoder"
  int64_t height, width;     // in pixels
};

void Check(const Case& c, DType dtype, DeviceKind kind) {
  const auto config = ParseVaeConfig(ReadTestdata(c.config + ".json"), c.config);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto device = MakeDevice(kind);
  const bool encodes = c.half == "encoder";
  const auto program = encodes
                           ? BuildVaeEncoder(*config, c.height, c.width, nn::LayerKind::kTrainable)
                           : BuildVaeDecoder(*config, c.height, c.width, nn::LayerKind::kTrainable);
  ASSERT_TRUE(program.ok()) << program.status();
  std::map<std::string, Tensor> inputs;
  for (const char* name : {"pixels", "vae_noise", "latents"}) {
    if (encodes == (std::string(name) == "latents")) continue;
    inputs[name] = FormulaInput(device, name, program->BatchShape(program->InputNamed(name), 2));
  }
  const Goldens goldens("models/testdata/" + c.config + "_" + c.half + ".safetensors", device);
  const Tensor output_gradient =
      FormulaInput(device, "output_gradient", program->BatchShape(program->outputs()[0], 2));
  const FormulaRun run =
      RunWithFormulaWeights(*program, inputs, output_gradient, {dtype, kind, /*num_parts=*/1});
  const double error = RelativeError(run.output, goldens.Get("output"));
  const GradientErrors gradients = CompareGradients(run.gradients, goldens);
  ExpectWithin(BoundsOf(*program, dtype, goldens),
               absl::StrCat(c.config, " ", c.half, " ", DTypeName(dtype)), error, gradients,
               goldens);
}

void CheckBoth(const std::string& config, int64_t height, int64_t width, DType dtype,
               DeviceKind kind = DeviceKind::kCpu) {
  for (const char* half : {"encoder", "decoder"}) Check({config, half, height, width}, dtype, kind);
}

TEST(VaeParityTest, Fp32) {
  CheckBoth("vae_small", 16, 24, DType::kF32);
  CheckBoth("vae_small", 16, 24, DType::kF32, DeviceKind::kCpuReference);
}
TEST(VaeParityTest, Bf16) { CheckBoth("vae_small", 16, 24, DType::kBf16); }

// 16 channels, a shift factor, no quantisation convolutions: Stable Diffusion 3 and FLUX.1.
TEST(VaeParityTest, ShiftedFp32) {
  CheckBoth("vae_shifted", 16, 8, DType::kF32);
  CheckBoth("vae_shifted", 16, 8, DType::kF32, DeviceKind::kCpuReference);
}
TEST(VaeParityTest, ShiftedBf16) { CheckBoth("vae_shifted", 16, 8, DType::kBf16); }

TEST(VaeFullSizeTest, Fp32) { CheckBoth("vae_sd", 48, 64, DType::kF32); }
TEST(VaeFullSizeTest, Bf16) { CheckBoth("vae_sd", 48, 64, DType::kBf16); }

}  // namespace
}  // namespace dpipe::models
