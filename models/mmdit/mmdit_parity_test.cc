// Compares the transformers with diffusers: outputs, and gradients of parameters and inputs. See
// models/testdata/make_formula_goldens.py. Latents, context and pooled text pass a linear layer
// each
// ("probe"), so that the gradients of its weights show those of the inputs. MmditParityTest uses
// small models, MmditFullWidthTest one or two blocks of Stable Diffusion 3.5 large and FLUX.1-dev.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/nn/nodes/product_nodes.h"
#include "core/nn/nodes/shape_nodes.h"
#include "gtest/gtest.h"
#include "models/mmdit/flux_transformer.h"
#include "models/mmdit/sd3_transformer.h"
#include "models/testdata/formula_run.h"
#include "models/testdata/formula_weights.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {
namespace {

// Adds the probes, in a layer of their own.
MmditInputs AddProbes(const MmditInputs& inputs, nn::ProgramBuilder* builder) {
  builder->BeginLayer("probe", nn::LayerKind::kTrainable);
  const auto probe = [&](const std::string& name, ValueId x) {
    return nn::AddLinear(builder, "probe." + name, x, {builder->shape(x)[-1], /*bias=*/false});
  };
  MmditInputs probed = inputs;
  probed.latents = probe("latents", nn::AddCast(builder, inputs.latents, nn::Element::kCompute));
  probed.context = probe("context", inputs.context);
  probed.pooled = probe("pooled", inputs.pooled);
  return probed;
}

struct Probed {
  std::unique_ptr<nn::Program> program;
  MmditInputSizes sizes;
  int64_t out_channels = 0;
};

Probed BuildSd3(const std::string& name, const MmditShape& shape, nn::LayerKind kind) {
  const auto config = ParseSd3TransformerConfig(ReadTestdata(name + ".json"), name);
  DPIPE_CHECK(config.ok()) << config.status();
  Probed probed;
  probed.sizes = {config->in_channels, config->context_width, config->pooled_width};
  probed.out_channels = config->out_channels;
  nn::ProgramBuilder builder(name);
  const MmditInputs inputs = AddProbes(AddMmditInputs(shape, probed.sizes, &builder), &builder);
  builder.MarkOutput(AddSd3Transformer(*config, shape, kind, inputs, &builder), "prediction");
  probed.program = std::make_unique<nn::Program>(builder.Build());
  return probed;
}

Probed BuildFlux(const std::string& name, const MmditShape& shape, nn::LayerKind kind) {
  const auto config = ParseFluxTransformerConfig(ReadTestdata(name + ".json"), name);
  DPIPE_CHECK(config.ok()) << config.status();
  Probed probed;
  probed.sizes = {config->latent_channels(), config->context_width, config->pooled_width,
                  config->guidance_embeds};
  probed.out_channels = config->latent_channels();
  nn::ProgramBuilder builder(name);
  const MmditInputs inputs = AddProbes(AddMmditInputs(shape, probed.sizes, &builder), &builder);
  builder.MarkOutput(AddFluxTransformer(*config, shape, kind, inputs, &builder), "prediction");
  probed.program = std::make_unique<nn::Program>(builder.Build());
  return probed;
}

struct Case {
  std::string name;
  Probed (*build)(const std::string& name, const MmditShape& shape, nn::LayerKind kind);
  MmditShape shape;
};

const Case kSmall[] = {{"mmdit/sd3_plain", BuildSd3, {8, 12, 5}},
                       {"mmdit/sd3_dual", BuildSd3, {6, 10, 4}},
                       {"mmdit/flux_guided", BuildFlux, {8, 12, 5}},
                       {"mmdit/flux_plain", BuildFlux, {6, 10, 4}}};

// Full width: 389 and 546 million parameters.
const Case kSd35Blocks = {"mmdit/sd35_blocks", BuildSd3, {8, 12, 16}};
const Case kFluxBlocks = {"mmdit/flux_blocks", BuildFlux, {8, 12, 16}};

FormulaRun RunCase(const Case& c, const Probed& probed, const FormulaRunOptions& options) {
  const auto device = MakeDevice(options.device);
  const MmditShape& s = c.shape;
  std::map<std::string, Tensor> inputs = {
      {"noisy_latents",
       FormulaInput(device, "latents", Shape({2, s.height, s.width, probed.sizes.channels}))},
      {"timesteps", Tensor::FromHost<float>(device, Shape({2}), {500, 62.5f})},
      {"context",
       FormulaInput(device, "context", Shape({2, s.context_length, probed.sizes.context_width}))},
      {"pooled", FormulaInput(device, "pooled", Shape({2, probed.sizes.pooled_width}))}};
  if (probed.sizes.guidance) {
    inputs["guidance"] = Tensor::FromHost<float>(device, Shape({2}), {4, 2});
  }
  const Tensor gradient =
      FormulaInput(device, "output_gradient", Shape({2, s.height, s.width, probed.out_channels}));
  return RunWithFormulaWeights(*probed.program, inputs, gradient, options);
}

// In fp32 as for all models; in bf16 three times the errors of diffusers' own bf16.
ErrorBounds Bounds(DType dtype, const Goldens& goldens) {
  if (dtype == DType::kF32) return kFp32Bounds;
  const Tensor theirs = goldens.Get("bf16_errors");
  const float* const errors = theirs.data<float>();
  return {3 * errors[0], 3 * errors[1], 3 * errors[2]};
}

void Check(const Case& c, DType dtype, DeviceKind kind = DeviceKind::kCpu, int num_parts = 1) {
  const Probed probed = c.build(c.name, c.shape, nn::LayerKind::kTrainable);
  const Goldens goldens("models/testdata/" + c.name + ".safetensors", MakeDevice(kind));
  const FormulaRun run = RunCase(c, probed, {dtype, kind, num_parts});
  ExpectWithin(Bounds(dtype, goldens), absl::StrCat(c.name, " ", DTypeName(dtype)),
               RelativeError(run.output, goldens.Get("output")),
               CompareGradients(run.gradients, goldens), goldens);
}

TEST(MmditParityTest, Fp32) {
  for (const Case& c : kSmall) {
    Check(c, DType::kF32);
    Check(c, DType::kF32, DeviceKind::kCpuReference);
  }
}

TEST(MmditParityTest, Bf16) {
  for (const Case& c : kSmall) Check(c, DType::kBf16);
}

// Gradients pass through a frozen transformer to its inputs with the same bits, and running one
// part at a time changes nothing.
TEST(MmditParityTest, FrozenWithGradientAndInParts) {
  for (const Case& c : kSmall) {
    const FormulaRun trained = RunCase(c, c.build(c.name, c.shape, nn::LayerKind::kTrainable), {});
    FormulaRunOptions parts;
    parts.num_parts = 4;
    const FormulaRun frozen =
        RunCase(c, c.build(c.name, c.shape, nn::LayerKind::kFrozenWithGradient), parts);
    EXPECT_EQ(RelativeError(frozen.output, trained.output), 0) << c.name;
    ASSERT_EQ(frozen.gradients.size(), 3u) << c.name;
    for (const auto& [name, sketch] : frozen.gradients) {
      EXPECT_GT(sketch.norm, 0) << name;
      EXPECT_EQ(SketchDistance(sketch, trained.gradients.at(name)), 0) << c.name << " " << name;
    }
  }
}

TEST(MmditFullWidthTest, Sd35LargeFp32) { Check(kSd35Blocks, DType::kF32, DeviceKind::kCpu, 3); }
TEST(MmditFullWidthTest, Sd35LargeBf16) { Check(kSd35Blocks, DType::kBf16, DeviceKind::kCpu, 3); }
TEST(MmditFullWidthTest, FluxFp32) { Check(kFluxBlocks, DType::kF32, DeviceKind::kCpu, 3); }
TEST(MmditFullWidthTest, FluxBf16) { Check(kFluxBlocks, DType::kBf16, DeviceKind::kCpu, 3); }

}  // namespace
}  // namespace dpipe::models
