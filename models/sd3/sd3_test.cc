// Tests Stable Diffusion 3 as a whole against diffusers (testdata/make_goldens.py): drawing with
// and without T5, a training step, saving, adapters.
#include "models/sd3/sd3.h"

#include <filesystem>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/tensor/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/latent/testing/draw_from_noise.h"
#include "models/latent/testing/family_check.h"
#include "models/lora/lora.h"
#include "models/weights/weights.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr char kTestdata[] = "models/sd3/testdata/";
constexpr char kTransformer[] = "/transformer/diffusion_pytorch_model.safetensors";
constexpr char kTable[] = "pos_embed.pos_embed";
const std::vector<std::string> kPrompts = {"a large red circle",
                                           "a small blue square left of a green star"};

Goldens OpenGoldens() {
  return Goldens(absl::StrCat(kTestdata, "goldens.safetensors"), Device::Cpu());
}

std::string SmallSd3(const std::string& name = "sd3") {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  WriteSmallFolder(absl::StrCat(kTestdata, "tiny"), folder);
  return folder;
}

absl::StatusOr<std::unique_ptr<LatentPipeline>> TryLoad(const std::string& folder,
                                                        const LoadModelOptions& options = {}) {
  DPIPE_ASSIGN_OR_RETURN(LatentParts parts, ReadSd3(folder, options));
  return LatentPipeline::Load(std::move(parts), options);
}

std::unique_ptr<LatentPipeline> Load(const std::string& folder,
                                     const LoadModelOptions& options = {}) {
  auto pipeline = TryLoad(folder, options);
  DPIPE_CHECK(pipeline.ok()) << pipeline.status();
  return *std::move(pipeline);
}

std::string ErrorOf(const std::string& folder, const LoadModelOptions& options = {}) {
  return std::string(TryLoad(folder, options).status().message());
}

NamedTensors Draw(const LatentPipeline& pipeline) {
  DrawOptions options;
  options.num_steps = 4;
  options.guidance = 4;
  auto drawn =
      DrawFromNoise(pipeline, DenoiserOf(pipeline), kPrompts, options, OpenGoldens().Get("noise"));
  DPIPE_CHECK(drawn.ok()) << drawn.status();
  return *std::move(drawn);
}

// Returns a tensor of the transformer's file.
Tensor Stored(const std::string& folder, const std::string& name) {
  const auto file = SafetensorsFile::Open(folder + kTransformer);
  DPIPE_CHECK(file.ok() && file->Find(name) != nullptr) << name << " " << file.status();
  return *ToFp32(*file->Find(name), Device::Cpu());
}

TEST(Sd3Test, DrawsTheImagesOfDiffusers) {
  const Goldens goldens = OpenGoldens();
  const auto pipeline = Load(SmallSd3());
  EXPECT_EQ(pipeline->image_size(), 32);
  EXPECT_TRUE(pipeline->notes().empty());
  const NamedTensors drawn = Draw(*pipeline);
  EXPECT_LT(RelativeError(drawn.at("latents"), goldens.Get("full/latents")), 1e-5);
  EXPECT_LT(RelativeError(drawn.at("pixels"), goldens.Get("full/pixels")), 1e-5);
}

// T5's tokens are then zeros, as many as asked for.
TEST(Sd3Test, DrawsWithoutT5AsDiffusers) {
  const std::string folder = SmallSd3("without_t5");
  const Json none = Json::array({nullptr, nullptr});
  EditJson(folder + "/model_index.json", {{"text_encoder_3", none}, {"tokenizer_3", none}});
  fs::remove_all(folder + "/text_encoder_3");
  fs::remove_all(folder + "/tokenizer_3");
  LoadModelOptions options;
  options.max_sequence_length = kSmallT5Tokens;
  const auto pipeline = Load(folder, options);
  EXPECT_EQ(pipeline->parts().text_encoders.size(), 2u);
  EXPECT_LT(RelativeError(Draw(*pipeline).at("latents"), OpenGoldens().Get("without_t5/latents")),
            1e-5);
  // With its own 256 tokens of zeros the images differ.
  EXPECT_GT(
      RelativeError(Draw(*Load(folder)).at("latents"), OpenGoldens().Get("without_t5/latents")),
      1e-4);
}

TEST(Sd3Test, LossAndGradientsOfAStepAreThoseOfTorch) {
  const Goldens goldens = OpenGoldens();
  const auto pipeline = Load(SmallSd3());
  const StepErrors errors = CompareStep(*pipeline, kPrompts, goldens.Get("train/latents"), goldens);
  EXPECT_LT(errors.losses, 1e-6);
  EXPECT_LT(errors.gradient, 3e-5) << errors.parameter;
  EXPECT_EQ(errors.num_trained, pipeline->model().backbone().program.num_parameters());
}

TEST(Sd3Test, SavesAFolderThatLoadsTheSame) {
  const auto pipeline = Load(SmallSd3());
  const NamedTensors random = pipeline->RandomDenoiser(3);
  const std::string saved = ::testing::TempDir() + "/saved";
  fs::remove_all(saved);
  ASSERT_TRUE(pipeline->Save(saved, random).ok());
  for (const char* file : {"scheduler/scheduler_config.json", "transformer/config.json"}) {
    EXPECT_EQ(*ReadFile(absl::StrCat(saved, "/", file)),
              *ReadFile(absl::StrCat(pipeline->folder(), "/", file)));
  }
  const auto again = Load(saved);
  const NamedTensors loaded = DenoiserOf(*again);
  ASSERT_EQ(loaded.size(), random.size());
  for (const auto& [name, tensor] : random) EXPECT_TRUE(SameBits(tensor, loaded.at(name))) << name;
  const auto before = EmbedTexts(*pipeline, kPrompts), after = EmbedTexts(*again, kPrompts);
  ASSERT_TRUE(before.ok() && after.ok());
  ASSERT_EQ(before->size(), 5u);
  for (const auto& [name, tensor] : *before) {
    EXPECT_TRUE(SameBits(tensor, after->at(name))) << name;
  }
}

// It is no parameter, but a part of the checkpoint.
TEST(Sd3Test, TheTableOfPositionsIsSavedAndChecked) {
  const auto pipeline = Load(SmallSd3());
  const Tensor of_diffusers = Stored(pipeline->folder(), kTable);
  EXPECT_EQ(of_diffusers.shape(), Shape({1, 12 * 12, 16}));
  for (const StoredFormat format : {StoredFormat::kFp32, StoredFormat::kBf16}) {
    const std::string saved = ::testing::TempDir() + "/saved_table";
    fs::remove_all(saved);
    ASSERT_TRUE(pipeline->Save(saved, DenoiserOf(*pipeline), format).ok());
    EXPECT_LT(RelativeError(Stored(saved, kTable), of_diffusers),
              format == StoredFormat::kFp32 ? 1e-6 : 3e-3);
    EXPECT_TRUE(Load(saved)->LoadDenoiser().ok());
  }
  NamedTensors weights = DenoiserOf(*pipeline);
  weights[kTable] = of_diffusers.Clone();
  weights[kTable].data<float>()[17] += 0.01f;
  const std::string path = pipeline->folder() + kTransformer;
  ASSERT_TRUE(SaveWeights(path, weights).ok());
  EXPECT_THAT(std::string(Load(pipeline->folder())->LoadDenoiser().status().message()),
              HasSubstr(path + ": pos_embed.pos_embed holds "));
  weights[kTable] = Tensor::Zeros(Device::Cpu(), {1, 4, 16}, DType::kF32);
  ASSERT_TRUE(SaveWeights(path, weights).ok());
  EXPECT_EQ(Load(pipeline->folder())->LoadDenoiser().status().message(),
            path + ": pos_embed.pos_embed is [1, 4, 16], expected [1, 144, 16]");
}

TEST(Sd3Test, PartsThatDoNotFitAreNamed) {
  const std::string folder = SmallSd3();
  const auto error = [&](const std::string& file, const Json& changes) {
    SmallSd3();
    EditJson(folder + "/" + file, changes);
    return ErrorOf(folder);
  };
  EXPECT_EQ(error("transformer/config.json", {{"pooled_projection_dim", 16}}),
            folder +
                ": the sum of the CLIPs' projection_dim is 14, but the transformer's "
                "pooled_projection_dim is 16");
  EXPECT_EQ(error("transformer/config.json", {{"joint_attention_dim", 40}}),
            folder +
                ": the d_model of text_encoder_3 is 32, but the transformer's "
                "joint_attention_dim is 40");
  EXPECT_EQ(error("text_encoder_2/config.json", {{"hidden_size", 18}}),
            folder +
                ": the CLIPs' hidden_size is 16 and 18, together 34, but the transformer's "
                "joint_attention_dim is 32");
  EXPECT_EQ(error("model_index.json", {{"text_encoder_2", Json::array({nullptr, nullptr})}}),
            folder +
                "/model_index.json names no text_encoder_2; as in diffusers, only text_encoder_3 "
                "may be missing");
  EXPECT_EQ(error("tokenizer_2/tokenizer_config.json", {{"model_max_length", 20}}),
            folder +
                ": the tokenizers' model_max_length are 32 and 20, but the CLIPs' states are "
                "joined; use equal lengths");
  EXPECT_EQ(error("vae/config.json", {{"latent_channels", 16}}),
            folder + "/vae/config.json: the VAE has 16 latent channels, but the transformer has 4");
  EXPECT_THAT(error("text_encoder/config.json", {{"architectures", {"CLIPTextModel"}}}),
              HasSubstr("the transformer reads projected pooled text"));
  EXPECT_THAT(error("transformer/config.json", {{"sample_size", 26}, {"pos_embed_max_size", 12}}),
              HasSubstr("latents of 26 x 26, but it has positions for at most 24 x 24"));
  SmallSd3();
  LoadModelOptions options;
  options.self_conditioning = true;
  EXPECT_EQ(ErrorOf(folder, options),
            folder + ": self-conditioning is not supported for Stable Diffusion 3; leave it out");
}

TEST(Sd3AdaptersTest, DrawsWithAdaptersOfDiffusers) {
  const Goldens goldens = OpenGoldens();
  LoadModelOptions options;
  options.adapters_file = absl::StrCat(kTestdata, "lora");
  const auto pipeline = Load(SmallSd3(), options);
  EXPECT_TRUE(pipeline->notes().empty());
  EXPECT_LT(RelativeError(Draw(*pipeline).at("latents"), goldens.Get("lora/latents")), 1e-5);
}

LoadModelOptions AdapterOptions(const std::vector<std::string>& targets, LoraFormat format) {
  LoadModelOptions options;
  options.lora = {2, 0.5f, targets};
  options.lora_format = format;
  return options;
}

std::string SaveAdapters(const LoadModelOptions& options, const std::string& name) {
  const auto pipeline = Load(SmallSd3(), options);
  NamedTensors parameters = DenoiserOf(*pipeline);
  SetAdapters(&parameters);
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  fs::remove_all(folder);
  EXPECT_TRUE(pipeline->Save(folder, parameters).ok());
  return folder;
}

TEST(Sd3AdaptersTest, BothKindsOfNamesHoldTheSameAdapters) {
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{}, {"all-linear"}, {"attn.to_k", "proj_out"}}) {
    const std::string ours =
        SaveAdapters(AdapterOptions(targets, LoraFormat::kDiffusers), "diffusers_names");
    const std::string kohya =
        SaveAdapters(AdapterOptions(targets, LoraFormat::kKohya), "kohya_names");
    for (const auto& [folder, prefix] :
         {std::make_pair(ours, "transformer."), std::make_pair(kohya, "lora_unet_")}) {
      const auto file = SafetensorsFile::Open(absl::StrCat(folder, "/", kLoraFile));
      ASSERT_TRUE(file.ok()) << file.status();
      for (const SafetensorsView& view : file->tensors()) {
        EXPECT_TRUE(absl::StartsWith(view.name, prefix)) << view.name;
        EXPECT_FALSE(absl::StrContains(view.name, "transformer_blocks_")) << view.name;
      }
    }
    const NamedTensors merged = DenoiserOf(*Load(ours)), same = DenoiserOf(*Load(kohya));
    const NamedTensors plain = DenoiserOf(*Load(SmallSd3()));
    int changed = 0;
    for (const auto& [name, tensor] : merged) {
      EXPECT_LT(RelativeError(same.at(name), tensor), 1e-6) << name;
      changed += !SameBits(tensor, plain.at(name));
    }
    // Block 0 has a second attention; block 1 only reads its text.
    const int first = 8 + 4, second = 7 + 2;
    const int modulations = 4, others = 1 + 4 + 2;  // text, timestep and pooled text, output
    EXPECT_EQ(changed, targets.empty()       ? first + second
                       : targets.size() == 1 ? first + 4 + second + modulations + others
                                             : 2 + 1);
  }
}

}  // namespace
}  // namespace dpipe::models
