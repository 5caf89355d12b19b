// Compares the U-Net with diffusers: see models/testdata/make_formula_goldens.py. Latents, context
// and pooled text of unet_xl pass a linear layer each ("probe"), so that the gradients of its
// weights show those of the inputs. UNetParityTest uses small models, UNetFullSizeTest those of
// Stable Diffusion v1.5 and v2.1, one part at a time.
#include "absl/strings/str_cat.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "gtest/gtest.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/diffusion/noising.h"
#include "models/testdata/formula_run.h"
#include "models/testdata/formula_weights.h"
#include "models/testdata/parameter_list.h"
#include "models/unet/unet.h"

namespace dpipe::models {
namespace {

struct Case {
  std::string name;
  diffusion::PredictionType type;
  UNetShape shape;
  int num_parts;
};

const Case kSmall[] = {{"unet_mixed", diffusion::PredictionType::kEpsilon, {8, 12, 5}, 1},
                       {"unet_conv", diffusion::PredictionType::kV, {8, 12, 5}, 1}};
// Latents whose lowest level still has 2 x 3 positions.
const Case kV15 = {"unet_v15", diffusion::PredictionType::kEpsilon, {16, 24, 77}, 12};
const Case kV21 = {"unet_v21", diffusion::PredictionType::kV, {16, 24, 77}, 12};

struct Errors {
  double prediction, loss;
  GradientErrors gradients;
  ErrorBounds bounds;
};

Errors Measure(const Case& c, DType dtype, DeviceKind kind) {
  const auto config = ParseUNetConfig(ReadTestdata(c.name + ".json"), c.name);
  DPIPE_CHECK(config.ok()) << config.status();
  const auto device = MakeDevice(kind);
  const Goldens goldens("models/testdata/" + c.name + ".safetensors", device);
  const FormulaRunOptions options = {dtype, kind, c.num_parts};
  const Shape latents_shape({2, c.shape.height, c.shape.width, config->in_channels});
  const Tensor latents = FormulaInput(device, "latents", latents_shape);
  const Tensor noise = FormulaInput(device, "noise", latents_shape);
  const Tensor timesteps = Tensor::FromHost<int32_t>(device, Shape({2}), {3, 912});
  const Tensor context = FormulaInput(
      device, "context", Shape({2, c.shape.context_length, config->cross_attention_dim}));

  diffusion::NoiseScheduleOptions schedule_options;
  schedule_options.prediction_type = c.type;
  const auto schedule = *diffusion::NoiseSchedule::Create(schedule_options);
  const auto inference = BuildUNetForInference(*config, c.shape);
  const auto training =
      BuildUNetForTraining(*config, c.shape, diffusion::DiffusionObjective(schedule));
  DPIPE_CHECK(inference.ok() && training.ok()) << inference.status() << training.status();
  const auto noisy = diffusion::AddNoise(schedule, latents, noise, timesteps, DType::kF32);
  DPIPE_CHECK(noisy.ok()) << noisy.status();

  const FormulaRun predicted = RunWithFormulaWeights(*inference,
                                                     {{"noisy_latents", *noisy},
                                                      {"timesteps", Goldens::ToFloats(timesteps)},
                                                      {"context", context}},
                                                     Tensor(), options);
  const FormulaRun trained = RunWithFormulaWeights(
      *training,
      {{"latents", latents}, {"noise", noise}, {"timesteps", timesteps}, {"context", context}},
      Tensor::FromHost<float>(device, Shape({2}), {0.5f, 0.5f}), options);
  return {RelativeError(predicted.output, goldens.Get("output")),
          RelativeError(trained.output, goldens.Get("losses")),
          CompareGradients(trained.gradients, goldens), BoundsOf(*training, dtype, goldens)};
}

void Check(const Case& c, DType dtype, DeviceKind kind) {
  const Goldens goldens("models/testdata/" + c.name + ".safetensors", MakeDevice(kind));
  const Errors errors = Measure(c, dtype, kind);
  ExpectWithin(errors.bounds, absl::StrCat(c.name, " ", DTypeName(dtype)), errors.prediction,
               errors.gradients, goldens);
  EXPECT_LT(errors.loss, errors.bounds.output) << c.name;
}

TEST(UNetParityTest, Fp32) {
  for (const Case& c : kSmall) Check(c, DType::kF32, DeviceKind::kCpu);
  Check(kSmall[1], DType::kF32, DeviceKind::kCpuReference);
}

TEST(UNetParityTest, Bf16) {
  for (const Case& c : kSmall) Check(c, DType::kBf16, DeviceKind::kCpu);
}

// SDXL's: pooled text and sizes.
void CheckProbed(DType dtype, DeviceKind kind) {
  const std::string name = "unet_xl";
  const auto config = ParseUNetConfig(ReadTestdata(name + ".json"), name);
  ASSERT_TRUE(config.ok()) << config.status();
  const UNetShape shape = {8, 12, 5};
  nn::ProgramBuilder builder(name);
  const ValueId latents = AddLatentsInput(*config, shape, "latents", &builder);
  const ValueId timesteps = builder.AddInput("timesteps", {Shape(), nn::Element::kI32});
  const ValueId context_input = AddContextInput(*config, shape, &builder);
  TextTime text_time = AddTextTimeInputs(*config, &builder).value();
  builder.BeginLayer("probe", nn::LayerKind::kTrainable);
  const auto probe = [&builder](const std::string& input, ValueId x) {
    return nn::AddLinear(&builder, "probe." + input, x, {builder.shape(x)[-1], /*bias=*/false});
  };
  const ValueId noisy = probe("latents", nn::AddCast(&builder, latents, nn::Element::kCompute));
  const ValueId context = probe("context", context_input);
  text_time.pooled = probe("pooled", text_time.pooled);
  UNetParts parts(*config, nn::LayerKind::kTrainable, /*prefix=*/"", &builder);
  const ValueId time = parts.AddTime(timesteps, text_time);
  builder.MarkOutput(parts.AddDecoder(parts.AddEncoder(noisy, time, context), time, context),
                     "prediction");
  const nn::Program program = builder.Build();

  const auto device = MakeDevice(kind);
  const Goldens goldens("models/testdata/unet_xl.safetensors", device);
  const FormulaRun run = RunWithFormulaWeights(
      program,
      {{"latents", FormulaInput(device, "latents", Shape({2, 8, 12, 4}))},
       {"timesteps", Tensor::FromHost<int32_t>(device, Shape({2}), {3, 912})},
       {"context", FormulaInput(device, "context", Shape({2, 5, 40}))},
       {"pooled", FormulaInput(device, "pooled", Shape({2, 20}))},
       {"time_ids",
        Tensor::FromHost<float>(device, Shape({2, 6}),
                                {1024, 768, 0, 128, 512, 640, 333, 500, 17, 0, 256, 256})}},
      FormulaInput(device, "output_gradient", Shape({2, 8, 12, 4})), {dtype, kind});
  ErrorBounds bounds = kFp32Bounds;
  if (dtype == DType::kBf16) {  // three times the errors of diffusers' own bf16
    const Tensor theirs = goldens.Get("bf16_errors");
    const float* const errors = theirs.data<float>();
    bounds = {3 * errors[0], 3 * errors[1], 3 * errors[2]};
  }
  ExpectWithin(bounds, absl::StrCat(name, " ", DTypeName(dtype)),
               RelativeError(run.output, goldens.Get("output")),
               CompareGradients(run.gradients, goldens), goldens);
}

TEST(UNetParityTest, SizesAndPooledTextFp32) {
  CheckProbed(DType::kF32, DeviceKind::kCpu);
  CheckProbed(DType::kF32, DeviceKind::kCpuReference);
}

TEST(UNetParityTest, SizesAndPooledTextBf16) { CheckProbed(DType::kBf16, DeviceKind::kCpu); }

// Running one part at a time gives the same result, so full-size models can be compared that way.
TEST(UNetParityTest, PartsChangeNothing) {
  Case c = kSmall[1];
  const Errors whole = Measure(c, DType::kF32, DeviceKind::kCpu);
  c.num_parts = 5;
  const Errors parts = Measure(c, DType::kF32, DeviceKind::kCpu);
  EXPECT_EQ(whole.prediction, parts.prediction);
  EXPECT_EQ(whole.loss, parts.loss);
  EXPECT_EQ(whole.gradients.worst, parts.gradients.worst);
}

TEST(UNetFullSizeTest, V15Fp32) { Check(kV15, DType::kF32, DeviceKind::kCpu); }
TEST(UNetFullSizeTest, V21Fp32) { Check(kV21, DType::kF32, DeviceKind::kCpu); }
// One model is enough: it has the roundings of v1.5 and those of linear projections.
TEST(UNetFullSizeTest, V21Bf16) { Check(kV21, DType::kBf16, DeviceKind::kCpu); }

}  // namespace
}  // namespace dpipe::models
