// Models with files of low-rank adapters, of which some are diffusers' goldens
// (models/lora/testdata/make_goldens.py).
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/nn/inference.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/lora/lora.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/testdata/golden_check.h"
#include "models/unet/unet.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr char kTinySd[] = "data/tiny_sd";

std::string GoldenFile(const std::string& format) {
  return absl::StrCat("models/lora/testdata/", format, ".safetensors");
}

std::unique_ptr<StableDiffusion> Load(const std::string& folder, const std::string& adapters = "",
                                      float scale = 1) {
  StableDiffusionOptions options;
  options.adapters_file = adapters;
  options.adapters_scale = scale;
  auto model = StableDiffusion::Load(folder, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

Tensor Run(const nn::Program& program, const nn::ParameterSet& parameters,
           const std::map<std::string, Tensor>& inputs) {
  nn::ValueMap values;
  for (const auto& [name, tensor] : inputs) values[program.InputNamed(name)] = tensor;
  nn::Inference passes(&parameters);
  EXPECT_TRUE(
      passes.Forward(program, program.all_layers(), Device::Cpu(), nn::RunOptions(), &values).ok());
  return values[program.outputs()[0]];
}

// What the model computes of the goldens' inputs.
struct Outputs {
  Tensor prediction, states;
};

Outputs Compute(const StableDiffusion& model, const Goldens& goldens) {
  const auto unet = BuildUNetForInference(model.unet_config(), model.unet_shape());
  nn::ParameterSet parameters(*unet, unet->all_layers(), Device::Cpu());
  const auto weights = model.LoadUNet();
  EXPECT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE(parameters.Load(*weights).ok());
  return {Run(*unet, parameters,
              {{"noisy_latents", goldens.Get("latents")},
               {"timesteps", goldens.GetAsFloats("timesteps")},
               {"context", goldens.Get("context")}}),
          Run(model.model().component(kTextEncoder).program,
              *model.frozen_parameters()[kTextEncoder], {{"ids", goldens.Get("ids")}})};
}

TEST(AdaptersGoldenTest, FilesOfAllNamesComputeWhatDiffusersComputes) {
  const Goldens goldens("models/lora/testdata/goldens.safetensors", Device::Cpu());
  const Outputs plain = Compute(*Load(kTinySd), goldens);
  for (const std::string format : {"peft", "diffusers", "attention_processors", "kohya"}) {
    SCOPED_TRACE(format);
    const auto model = Load(kTinySd, GoldenFile(format));
    ASSERT_NE(model, nullptr);
    const Outputs outputs = Compute(*model, goldens);
    const Tensor prediction = goldens.Get(format + "/prediction");
    const Tensor states = goldens.Get(format + "/states");
    // fp32 on both sides, where adapters are merged on ours only.
    EXPECT_LT(RelativeError(outputs.prediction, prediction), 5e-6);
    EXPECT_LT(RelativeError(outputs.states, states), 5e-6);
    EXPECT_GT(RelativeError(plain.prediction, prediction), 5e-3);
    EXPECT_EQ(RelativeError(plain.states, states) > 0.1, format != "attention_processors");
  }
}

TEST(AdaptersTest, CountByTheirScale) {
  const std::string file = GoldenFile("peft");
  const auto weight = [](const StableDiffusion& model) {
    return model.LoadUNet()->at("mid_block.attentions.0.transformer_blocks.0.attn1.to_q.weight");
  };
  const auto text_weight = [](const StableDiffusion& model) {
    NamedTensors weights;
    model.frozen_parameters()[kTextEncoder]->Collect(&weights);
    return weights.at("text_model.encoder.layers.0.self_attn.q_proj.weight");
  };
  const auto none = Load(kTinySd), whole = Load(kTinySd, file), half = Load(kTinySd, file, 0.5f);
  for (const auto& of : {std::function<Tensor(const StableDiffusion&)>(weight),
                         std::function<Tensor(const StableDiffusion&)>(text_weight)}) {
    const Tensor a = of(*none), b = of(*half), c = of(*whole);
    EXPECT_GT(RelativeError(c, a), 0.1);
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      ASSERT_NEAR(b.data<float>()[i], (a.data<float>()[i] + c.data<float>()[i]) / 2, 1e-5);
    }
  }
  // Not counted at all, they change nothing.
  EXPECT_EQ(RelativeError(weight(*Load(kTinySd, file, 0)), weight(*none)), 0);
}

// Of a folder with adapters of both, saved after training: all of them are in its weights.
TEST(AdaptersTest, TheTextEncodersAreSavedMerged) {
  const Goldens goldens("models/lora/testdata/goldens.safetensors", Device::Cpu());
  const std::string folder = ::testing::TempDir() + "/with_adapters";
  fs::remove_all(folder);
  fs::copy(kTinySd, folder, fs::copy_options::recursive);
  fs::copy(GoldenFile("kohya"), absl::StrCat(folder, "/", kLoraFile));
  const auto model = Load(folder);
  ASSERT_NE(model, nullptr);
  const std::string saved = ::testing::TempDir() + "/saved";
  ASSERT_TRUE(model->Save(saved, *model->LoadUNet()).ok());
  EXPECT_FALSE(fs::exists(absl::StrCat(saved, "/", kLoraFile)));
  const auto again = Load(saved);
  ASSERT_NE(again, nullptr);
  const Outputs outputs = Compute(*again, goldens);
  EXPECT_LT(RelativeError(outputs.prediction, goldens.Get("kohya/prediction")), 5e-6);
  EXPECT_LT(RelativeError(outputs.states, goldens.Get("kohya/states")), 5e-6);
}

TEST(AdaptersTest, AFolderWithAFileWillDoAndAMissingFileIsNamed) {
  const std::string folder = ::testing::TempDir() + "/adapters_alone";
  fs::remove_all(folder);
  ASSERT_TRUE(MakeFolder(folder).ok());
  fs::copy(GoldenFile("diffusers"), absl::StrCat(folder, "/", kLoraFile));
  EXPECT_NE(Load(kTinySd, folder), nullptr);
  StableDiffusionOptions options;
  options.adapters_file = "/no/lora.safetensors";
  EXPECT_EQ(StableDiffusion::Load(kTinySd, options).status().message(),
            "there is no file of low-rank adapters /no/lora.safetensors");
}

}  // namespace
}  // namespace dpipe::models
