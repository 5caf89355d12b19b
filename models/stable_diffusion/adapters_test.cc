// Tests models with files of low-rank adapters, including goldens of diffusers and PEFT
// (models/lora/testdata/make_goldens.py, make_peft_goldens.py).
#include <cstring>
#include <filesystem>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/nn/inference.h"
#include "core/tensor/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/latent/trainable.h"
#include "models/lora/lora.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/testdata/golden_check.h"
#include "models/unet/unet.h"

namespace dpipe::models {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace fs = std::filesystem;

constexpr char kTinySd[] = "data/tiny_sd";

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

absl::StatusOr<std::unique_ptr<TrainableModel>> LoadTrainable(const std::string& folder,
                                                              const LoadModelOptions& options) {
  return StableDiffusionKind().load(folder, options);
}

std::string GoldenFile(const std::string& format) {
  return absl::StrCat("models/lora/testdata/", format, ".safetensors");
}

std::unique_ptr<LatentPipeline> Load(const std::string& folder, const std::string& adapters = "",
                                     float scale = 1) {
  LoadModelOptions options;
  options.adapters_file = adapters;
  options.adapters_scale = scale;
  auto model = LoadStableDiffusion(folder, options);
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

// The model's results for the goldens' inputs.
struct Outputs {
  Tensor prediction, states;
};

Outputs Compute(const LatentPipeline& model, const Goldens& goldens) {
  const auto unet = model.denoiser().BuildForDrawing(model.latent_size());
  nn::ParameterSet parameters(*unet, unet->all_layers(), Device::Cpu());
  const auto weights = model.LoadDenoiser();
  EXPECT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE(parameters.Load(*weights).ok());
  EXPECT_TRUE(model.LoadFrozen(kFirstTextEncoder).ok());
  return {Run(*unet, parameters,
              {{"noisy_latents", goldens.Get("latents")},
               {"timesteps", goldens.GetAsFloats("timesteps")},
               {"context", goldens.Get("context")}}),
          Run(model.model().component(kFirstTextEncoder).program,
              *model.frozen_parameters()[kFirstTextEncoder], {{"ids", goldens.Get("ids")}})};
}

TEST(AdaptersGoldenTest, FilesOfAllNamesMatchDiffusers) {
  const Goldens goldens("models/lora/testdata/goldens.safetensors", Device::Cpu());
  const Outputs plain = Compute(*Load(kTinySd), goldens);
  for (const std::string format : {"peft", "diffusers", "attention_processors", "kohya"}) {
    SCOPED_TRACE(format);
    const auto model = Load(kTinySd, GoldenFile(format));
    ASSERT_NE(model, nullptr);
    const Outputs outputs = Compute(*model, goldens);
    const Tensor prediction = goldens.Get(format + "/prediction");
    const Tensor states = goldens.Get(format + "/states");
    // fp32 on both sides; only this side merges the adapters.
    EXPECT_LT(RelativeError(outputs.prediction, prediction), 5e-6);
    EXPECT_LT(RelativeError(outputs.states, states), 5e-6);
    EXPECT_GT(RelativeError(plain.prediction, prediction), 5e-3);
    EXPECT_EQ(RelativeError(plain.states, states) > 0.1, format != "attention_processors");
  }
}

// Folders of save_pretrained, with patterns of ranks and alphas and rank-stabilised scales.
TEST(AdaptersGoldenTest, FoldersOfPeftMatchPeft) {
  const Goldens inputs("models/lora/testdata/goldens.safetensors", Device::Cpu());
  const Goldens goldens("models/lora/testdata/peft_goldens.safetensors", Device::Cpu());
  const Outputs plain = Compute(*Load(kTinySd), inputs);
  const auto unet = Load(kTinySd, "models/lora/testdata/peft_unet");
  const auto text_encoder = Load(kTinySd, "models/lora/testdata/peft_text_encoder");
  ASSERT_NE(unet, nullptr);
  ASSERT_NE(text_encoder, nullptr);
  EXPECT_TRUE(unet->notes().empty());
  const Tensor prediction = goldens.Get("prediction"), states = goldens.Get("states");
  EXPECT_LT(RelativeError(Compute(*unet, inputs).prediction, prediction), 5e-6);
  EXPECT_LT(RelativeError(Compute(*text_encoder, inputs).states, states), 5e-6);
  EXPECT_GT(RelativeError(plain.prediction, prediction), 5e-3);
  EXPECT_GT(RelativeError(plain.states, states), 0.05);
}

TEST(AdaptersTest, AreScaled) {
  const std::string file = GoldenFile("peft");
  const auto weight = [](const LatentPipeline& model) {
    return model.LoadDenoiser()->at(
        "mid_block.attentions.0.transformer_blocks.0.attn1.to_q.weight");
  };
  const auto text_weight = [](const LatentPipeline& model) {
    NamedTensors weights;
    EXPECT_TRUE(model.LoadFrozen(kFirstTextEncoder).ok());
    model.frozen_parameters()[kFirstTextEncoder]->Collect(&weights);
    return weights.at("text_model.encoder.layers.0.self_attn.q_proj.weight");
  };
  const auto none = Load(kTinySd), whole = Load(kTinySd, file), half = Load(kTinySd, file, 0.5f);
  for (const auto& of : {std::function<Tensor(const LatentPipeline&)>(weight),
                         std::function<Tensor(const LatentPipeline&)>(text_weight)}) {
    const Tensor a = of(*none), b = of(*half), c = of(*whole);
    EXPECT_GT(RelativeError(c, a), 0.1);
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      ASSERT_NEAR(b.data<float>()[i], (a.data<float>()[i] + c.data<float>()[i]) / 2, 1e-5);
    }
  }
  // With a scale of 0 they change nothing.
  EXPECT_EQ(RelativeError(weight(*Load(kTinySd, file, 0)), weight(*none)), 0);
}

// A folder with adapters for both components has all of them in its weights when saved after
// training.
TEST(AdaptersTest, TheTextEncodersAreSavedMerged) {
  const Goldens goldens("models/lora/testdata/goldens.safetensors", Device::Cpu());
  const std::string folder = ::testing::TempDir() + "/with_adapters";
  fs::remove_all(folder);
  fs::copy(kTinySd, folder, fs::copy_options::recursive);
  fs::copy(GoldenFile("kohya"), absl::StrCat(folder, "/", kLoraFile));
  const auto model = Load(folder);
  ASSERT_NE(model, nullptr);
  const std::string saved = ::testing::TempDir() + "/saved";
  ASSERT_TRUE(model->Save(saved, *model->LoadDenoiser()).ok());
  EXPECT_FALSE(fs::exists(absl::StrCat(saved, "/", kLoraFile)));
  const auto again = Load(saved);
  ASSERT_NE(again, nullptr);
  const Outputs outputs = Compute(*again, goldens);
  EXPECT_LT(RelativeError(outputs.prediction, goldens.Get("kohya/prediction")), 5e-6);
  EXPECT_LT(RelativeError(outputs.states, goldens.Get("kohya/states")), 5e-6);
}

TEST(AdaptersTest, AFolderIsAcceptedAndAMissingFileIsNamed) {
  const std::string folder = ::testing::TempDir() + "/adapters_alone";
  fs::remove_all(folder);
  ASSERT_TRUE(MakeFolder(folder).ok());
  fs::copy(GoldenFile("diffusers"), absl::StrCat(folder, "/", kLoraFile));
  EXPECT_NE(Load(kTinySd, folder), nullptr);
  LoadModelOptions options;
  options.adapters_file = "/no/lora.safetensors";
  EXPECT_EQ(LoadStableDiffusion(kTinySd, options).status().message(),
            "no low-rank adapter file /no/lora.safetensors");
}

std::string FolderWithAdapters(const std::string& name, const std::string& file) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  fs::remove_all(folder);
  fs::copy(kTinySd, folder, fs::copy_options::recursive);
  fs::copy(file, absl::StrCat(folder, "/", kLoraFile));
  return folder;
}

// Full training starts with a folder's own adapters merged into the weights, and reports it.
TEST(AdaptersTest, TrainingNamesMergedAdapters) {
  using Start = TrainableModel::Start;
  const std::string folder = FolderWithAdapters("own_adapters", GoldenFile("peft"));
  const auto model = LoadTrainable(folder, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string merged = absl::StrCat(" with merged adapters from ", folder, "/", kLoraFile);
  EXPECT_THAT((*model)->DescribeStart(Start::kFolder, 1), HasSubstr(merged));
  EXPECT_THAT((*model)->DescribeFrozen(), HasSubstr("text_encoder from " + folder + merged));
  EXPECT_THAT((*model)->notes(Start::kFolder), IsEmpty());
  const auto plain = LoadTrainable(kTinySd, {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT((*plain)->DescribeFrozen(), Not(HasSubstr("adapters")));
}

TEST(AdaptersTest, UnusedTensorsAndWrappersAreNotes) {
  const std::string folder = FolderWithAdapters("notes", GoldenFile("peft"));
  const std::string unet_path = absl::StrCat(folder, "/unet/", kDiffusersWeights);
  for (const auto& [path, prefix, extra] :
       {std::make_tuple(unet_path, "_orig_mod.", false),
        std::make_tuple(absl::StrCat(folder, "/", kLoraFile), "", true)}) {
    const auto file = SafetensorsFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<SafetensorsView> views = file->tensors();
    for (SafetensorsView& view : views) view.name = prefix + view.name;
    if (extra) views.push_back({"bundle_emb.cat.name", "F32", {1}, "1234"});
    ASSERT_TRUE(WriteSafetensors(path, views).ok());
  }
  const auto model = Load(folder);
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(model->notes(),
              ElementsAre(AllOf(HasSubstr("1 of its 35 tensors are no adapters"),
                                HasSubstr("not used: bundle_emb.cat.name")),
                          unet_path + ": every name begins with '_orig_mod.', as added by "
                                      "torch.compile or DataParallel; this prefix is ignored"));
  EXPECT_TRUE(model->LoadDenoiser().ok());
}

// Trained adapters are written with the requested names, and read back.
TEST(AdaptersTest, TrainedOnesAreSavedWithKohyasNames) {
  LoadModelOptions options;
  options.lora = {2, 0.5f};
  options.lora_format = LoraFormat::kKohya;
  const auto model = LoadStableDiffusion(kTinySd, options);
  ASSERT_TRUE(model.ok()) << model.status();
  auto weights = (*model)->LoadDenoiser();
  ASSERT_TRUE(weights.ok()) << weights.status();
  const std::string up = "mid_block.attentions.0.transformer_blocks.0.attn1.to_q.lora_B.weight";
  for (float& x : weights->at(up).span<float>()) x = 0.25f;
  const std::string saved = ::testing::TempDir() + "/saved_as_kohya";
  ASSERT_TRUE((*model)->Save(saved, *weights).ok());
  const auto file = SafetensorsFile::Open(absl::StrCat(saved, "/", kLoraFile));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const SafetensorsView& view : file->tensors()) {
    EXPECT_EQ(view.name.find("lora_unet_"), 0u) << view.name;
  }
  const auto again = LoadStableDiffusion(saved, options);
  ASSERT_TRUE(again.ok()) << again.status();
  const auto same = (*again)->LoadDenoiser();
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->at(up).data<float>()[0], 0.25f);
}

// Saves tiny_sd with adapters of rank 2 that change its output.
std::string WithAdapters() {
  LoadModelOptions options;
  options.lora.rank = 2;
  const auto model = LoadStableDiffusion(kTinySd, options);
  EXPECT_TRUE(model.ok()) << model.status();
  NamedTensors unet = *(*model)->LoadDenoiser();
  for (auto& [name, tensor] : unet) {
    if (absl::EndsWith(name, nn::kLoraUp)) {
      tensor = tensor.Clone();
      for (float& x : tensor.span<float>()) x = 0.1f;
    }
  }
  const std::string folder = ::testing::TempDir() + "/with_adapters";
  EXPECT_TRUE((*model)->Save(folder, unet).ok());
  return folder;
}

TEST(AdaptersTest, AreMergedIntoEveryTrainedUNet) {
  const std::string folder = WithAdapters();
  const auto plain = LoadStableDiffusion(folder, {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto merged = (*plain)->LoadDenoiser();
  ASSERT_TRUE(merged.ok()) << merged.status();
  LoadModelOptions self_conditioned, placed;
  self_conditioned.self_conditioning = true;
  placed.coordinates = true;
  for (const LoadModelOptions& options : {self_conditioned, placed}) {
    const auto model = LoadStableDiffusion(folder, options);
    ASSERT_TRUE(model.ok()) << model.status();
    auto unet = (*model)->LoadDenoiser();
    ASSERT_TRUE(unet.ok()) << unet.status();
    unet->erase("conv_in.weight");
    for (const auto& [name, tensor] : *unet) {
      EXPECT_TRUE(SameBits(tensor, merged->at(name))) << name;
    }
  }
}

TEST(AdaptersTest, AdaptersThatWouldBeLostAreListed) {
  const std::string folder = WithAdapters();
  LoadModelOptions options;
  options.lora.rank = 2;
  const auto error = [&] {
    const auto model = LoadStableDiffusion(folder, options);
    EXPECT_TRUE(model.ok()) << model.status();
    return std::string((*model)->LoadDenoiser().status().message());
  };
  EXPECT_EQ(error(), "");
  const std::string file = absl::StrCat(folder, "/", kLoraFile);
  const auto unet = ReadUNetConfig("data/tiny_sd/unet/config.json");
  LoraTargets targets;
  targets.unet = AdaptableLayers(*BuildUNetForInference(*unet, {16, 16, 32}));
  NamedTensors adapters = LoadLora(file, 1, targets)->unet;
  const Tensor two = Tensor::Zeros(Device::Cpu(), {2, 2}, DType::kF32);
  adapters["mid_block.attentions.0.proj_in.lora_A.weight"] = two;
  adapters["mid_block.attentions.0.proj_in.lora_B.weight"] = two;
  ASSERT_TRUE(SaveLora(file, adapters, 1, LoraFormat::kDiffusers, StoredFormat::kFp32).ok());
  EXPECT_EQ(error(),
            absl::StrCat(file,
                         ": 2 parameters belong to adapters that are not being trained and would "
                         "be lost: mid_block.attentions.0.proj_in.lora_A.weight, "
                         "mid_block.attentions.0.proj_in.lora_B.weight"));
}

}  // namespace
}  // namespace dpipe::models
