#include "models/controlnet/controlnet.h"

#include <cstring>
#include <map>

#include "core/base/philox.h"
#include "core/nn/parameters.h"
#include "core/nn/testing/gradient_check.h"
#include "gtest/gtest.h"
#include "models/controlnet/golden_case.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/testdata/golden_check.h"
#include "models/testdata/parameter_list.h"

namespace dpipe::models {
namespace {

diffusion::DiffusionObjective Training() {
  return diffusion::DiffusionObjective(*diffusion::NoiseSchedule::Create({}));
}

UNetConfig SmallUNet() {
  UNetConfig config;
  config.block_out_channels = {8, 16};
  config.down_has_attention = {true, false};
  config.up_has_attention = {true, false};
  config.layers_per_block = 1;
  config.num_heads = {2, 4};
  config.transformer_layers = {1, 1};
  config.cross_attention_dim = 6;
  config.norm_groups = 4;
  return config;
}

ControlNetConfig SmallControlNet() {
  ControlNetConfig config;
  config.encoder = SmallUNet();
  config.hint_channels = {4, 6};
  return config;
}

const UNetShape kShape = {4, 6, 3};

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

std::vector<std::string> ExpectedHere(const std::string& name) {
  const auto text = ReadFile("models/controlnet/testdata/" + name);
  DPIPE_CHECK(text.ok()) << text.status();
  return absl::StrSplit(*text, '\n', absl::SkipEmpty());
}

// Trainable parameters have the names and shapes of diffusers' ControlNetModel, all others those of
// the U-Net.
TEST(ControlNetTest, ParametersAreThoseOfTheCheckpoints) {
  const struct {
    ControlNetGolden c;
    int64_t trainable;
  } cases[] = {{{"controlnet_v15", "unet_v15", "", {}}, 361279120},
               {{"controlnet_mixed", "unet_mixed", "", {}}, 499444},
               {{"controlnet_conv", "unet_conv", "", {}}, 95130}};
  for (const auto& expected : cases) {
    const ControlNetGolden& c = expected.c;
    const UNetConfig unet = GoldenUNet(c);
    const auto program =
        BuildControlNetForTraining(GoldenControlNet(c), unet, {64, 64, 77}, Training());
    const auto encoder = BuildLockedEncoder(unet, {64, 64, 77}, Training());
    ASSERT_TRUE(program.ok() && encoder.ok()) << program.status();
    std::vector<std::string> trainable, locked = ParametersOf({&*encoder});
    int64_t count = 0;
    for (int i = 0; i < program->num_parameters(); ++i) {
      const nn::ParameterInfo& info = program->parameter(nn::ParameterId(i));
      std::string line = info.name;
      for (int64_t d : info.shape.dims()) absl::StrAppend(&line, " ", d);
      const nn::LayerKind kind = program->layer(info.layer).kind;
      if (kind == nn::LayerKind::kTrainable) {
        trainable.push_back(line);
        count += info.shape.num_elements();
      } else {
        ASSERT_EQ(kind, nn::LayerKind::kFrozenWithGradient) << line;
        ASSERT_EQ(line.rfind(kDecoderPrefix, 0), 0) << line;
        locked.push_back(line.substr(std::strlen(kDecoderPrefix)));
      }
    }
    std::sort(trainable.begin(), trainable.end());
    std::sort(locked.begin(), locked.end());
    EXPECT_EQ(trainable, ExpectedHere(c.name + ".parameters"));
    EXPECT_EQ(locked, ExpectedParameters(c.unet + ".parameters"));
    EXPECT_EQ(count, expected.trainable);
  }
}

TEST(ControlNetTest, StableDiffusion15IsCutFinely) {
  const ControlNetGolden c = {"controlnet_v15", "unet_v15", "", {}};
  const UNetConfig unet = GoldenUNet(c);
  const auto program =
      BuildControlNetForTraining(GoldenControlNet(c), unet, {64, 64, 77}, Training());
  const auto encoder = BuildLockedEncoder(unet, {64, 64, 77}, Training());
  ASSERT_TRUE(program.ok() && encoder.ok());
  EXPECT_EQ(encoder->outputs().size(), 14) << "time, twelve skips, middle";
  // The cut at the end of the encoder is crossed by the mid block's output and the skips. The
  // locked encoder's outputs are external, so they cross no cut.
  const int controls = program->FindLayer("controlnet_down_blocks.0");
  EXPECT_EQ(program->LiveAt(controls).size(), 13);
  // In the decoder no weight has a gradient, but every value has.
  const int decoder = program->FindLayer("unet.up_blocks.0.resnets.0.conv1");
  EXPECT_EQ(program->GradientsAt(decoder).size(), 13);
  nn::ParameterSet parameters(*program, {decoder, program->num_layers()}, Device::Cpu());
  EXPECT_TRUE(parameters.trainable_ids().empty());
  EXPECT_EQ(parameters.grad_bytes(), 0);
}

// The zero convolutions are not zero here, so that gradients reach everything.
TEST(ControlNetTest, GradientsAndSplits) {
  const auto device = Device::Cpu();
  device->allocator().set_poison(true);
  const auto program =
      BuildControlNetForTraining(SmallControlNet(), SmallUNet(), kShape, Training());
  ASSERT_TRUE(program.ok()) << program.status();
  nn::ParameterSet parameters(*program, program->all_layers(), device);
  parameters.InitRandom(1);
  for (nn::ParameterId id : parameters.trainable_ids()) {
    Tensor master = parameters.weight(id).master();
    if (program->parameter(id).init.kind != nn::InitRule::Kind::kZeros) continue;
    RandomStream random(3, id.value(), 0, RandomPurpose::kTest);
    for (float& x : master.span<float>()) x = 0.2f * random.NextNormal();
    parameters.mutable_weight(id)->MarkUpdated();
  }
  const nn::ValueMap inputs = nn::RandomInputs(*program, device, 2, DType::kF32, 1000, 2);
  // Twice the default, because finite differences pass through two networks in a row in fp32.
  // controlnet_parity_test has the exact comparison.
  nn::GradientCheckOptions check;
  check.tolerance = 2e-2;
  const absl::Status gradients = nn::CheckGradients(*program, &parameters, inputs, check);
  EXPECT_TRUE(gradients.ok()) << gradients;
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    const absl::Status splits =
        nn::CheckSplits(*program, &parameters,
                        nn::RandomInputs(*program, device, 2, dtype, 1000, 2), {dtype}, 3, 3);
    EXPECT_TRUE(splits.ok()) << splits;
  }
}

// Random weights of the U-Net under both names, with and without the prefix.
std::map<std::string, Tensor> RandomUNet(const nn::Program& unet) {
  nn::ParameterSet parameters(unet, unet.all_layers(), Device::Cpu());
  parameters.InitRandom(7);
  std::map<std::string, Tensor> tensors, all;
  parameters.Collect(&tensors);
  for (const auto& [name, tensor] : tensors) {
    all[name] = tensor;  // the copy starts as the U-Net's own encoder
    all[kDecoderPrefix + name] = tensor;
  }
  return all;
}

// Runs a whole program on `inputs`, by name; there may be more than it needs. Parameters are set by
// name; those that are missing keep their initial values.
nn::ValueMap RunAll(const nn::Program& program, std::map<std::string, Tensor> tensors,
                    const std::map<std::string, Tensor>& inputs, DType dtype) {
  nn::ParameterSet parameters(program, program.all_layers(), Device::Cpu());
  parameters.InitRandom(5);
  std::map<std::string, Tensor> own;
  parameters.Collect(&own);
  tensors.insert(own.begin(), own.end());
  DPIPE_CHECK(parameters.Load(tensors).ok());
  nn::ValueMap values;
  for (ValueId id : program.inputs()) values[id] = inputs.at(program.value(id).name);
  const absl::Status status =
      nn::Forward(program, program.all_layers(), parameters, {dtype}, &values, nullptr);
  DPIPE_CHECK(status.ok()) << status;
  return values;
}

// While the zero convolutions are zero, prediction and loss are those of the plain U-Net, bit for
// bit, for every condition.
TEST(ControlNetTest, BeginsAsThePlainUNetExactly) {
  const ControlNetGolden c = {"controlnet_mixed", "unet_mixed", "", {}};
  const UNetConfig unet = GoldenUNet(c);
  const ControlNetConfig config = GoldenControlNet(c);
  const UNetShape shape = {8, 8, 5};
  const auto plain = BuildUNetForTraining(unet, shape, Training());
  const auto plain_inference = BuildUNetForInference(unet, shape);
  const auto encoder = BuildLockedEncoder(unet, shape, Training());
  const auto controlled = BuildControlNetForTraining(config, unet, shape, Training());
  const auto inference = BuildControlNetForInference(config, unet, shape);
  ASSERT_TRUE(plain.ok() && encoder.ok() && controlled.ok() && inference.ok());
  const std::map<std::string, Tensor> weights = RandomUNet(*plain);
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    std::map<std::string, Tensor> inputs;
    for (const nn::Program* program : {&*controlled, &*plain_inference}) {
      const nn::ValueMap random =
          nn::RandomInputs(*program, Device::Cpu(), 3, dtype, 1000, /*seed=*/4);
      for (const auto& [id, tensor] : random) inputs.emplace(program->value(id).name, tensor);
    }
    const nn::ValueMap encoded = RunAll(*encoder, weights, inputs, dtype);
    for (ValueId id : encoder->outputs()) inputs[encoder->value(id).name] = encoded.at(id);

    const Tensor expected = RunAll(*plain, weights, inputs, dtype).at(plain->OutputNamed("loss"));
    const Tensor actual =
        RunAll(*controlled, weights, inputs, dtype).at(controlled->OutputNamed("loss"));
    EXPECT_TRUE(SameBits(expected, actual)) << DTypeName(dtype);
    inputs["timesteps"] = Goldens::ToFloats(inputs.at("timesteps"));
    const Tensor predicted = RunAll(*plain_inference, weights, inputs, dtype)
                                 .at(plain_inference->OutputNamed("prediction"));
    const Tensor with_control =
        RunAll(*inference, weights, inputs, dtype).at(inference->OutputNamed("prediction"));
    EXPECT_TRUE(SameBits(predicted, with_control)) << DTypeName(dtype);
  }
}

TEST(ControlNetTest, ConfigurationsThatDoNotFitAreNamed) {
  UNetConfig unet = SmallUNet();
  unet.layers_per_block = 2;
  EXPECT_EQ(
      BuildControlNetForTraining(SmallControlNet(), unet, kShape, Training()).status().message(),
      "the ControlNet's layers_per_block differs from the U-Net's: 1 and 2");
  unet = SmallUNet();
  unet.out_channels = 8;
  EXPECT_EQ(
      BuildControlNetForTraining(SmallControlNet(), unet, kShape, Training()).status().message(),
      "controlnet: the U-Net has 4 input channels and 8 output channels; training needs the same "
      "number");
}

TEST(ControlNetConfigTest, NamesProblems) {
  for (const auto& [key, value] :
       std::map<std::string, std::string>{{"global_pool_conditions", "true"},
                                          {"class_embed_type", "\"timestep\""},
                                          {"conditioning_embedding_out_channels", "[]"},
                                          {"controlnet_conditioning_channel_order", "\"bgr\""}}) {
    const auto config =
        ParseControlNetConfig("{\"" + key + "\": " + value + "}", "controlnet/config.json");
    const std::string message(config.status().message());
    EXPECT_EQ(message.find("controlnet/config.json: '" + key + "' is " + value), 0u) << message;
  }
  EXPECT_EQ(ParseControlNetConfig(R"({"_class_name": "UNet2DConditionModel"})", "c.json")
                .status()
                .message(),
            "c.json: '_class_name' is \"UNet2DConditionModel\"; only \"ControlNetModel\" is "
            "supported");
}

TEST(ControlNetConfigTest, IsMadeFromAUNets) {
  EXPECT_EQ(DefaultHintChannels(8), (std::vector<int64_t>{16, 32, 96, 256}));
  EXPECT_EQ(DefaultHintChannels(4), (std::vector<int64_t>{16, 32, 96}));
  EXPECT_EQ(DefaultHintChannels(16), (std::vector<int64_t>{16, 32, 96, 256, 256}));
  EXPECT_EQ(DefaultHintChannels(1), (std::vector<int64_t>{16}));
  for (const char* name : {"unet_v15", "unet_v21", "unet_mixed"}) {
    const auto unet = ParseUNetConfig(ReadTestdata(std::string(name) + ".json"), name);
    const auto json = ControlNetConfigOf(ReadTestdata(std::string(name) + ".json"), name, {16, 32});
    ASSERT_TRUE(unet.ok() && json.ok());
    const auto config = ParseControlNetConfig(*json, "made");
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_TRUE(CheckFitsUNet(*config, *unet).ok());
    EXPECT_EQ(config->encoder.num_heads, unet->num_heads);
    EXPECT_EQ(config->encoder.linear_projection, unet->linear_projection);
    EXPECT_EQ(config->encoder.transformer_layers, unet->transformer_layers);
    EXPECT_EQ(config->hint_channels, (std::vector<int64_t>{16, 32}));
  }
}

}  // namespace
}  // namespace dpipe::models
