// Tests FLUX.1 as a whole against diffusers (testdata/make_goldens.py): drawing, a training step,
// saving, adapters.
#include "models/flux/flux.h"

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

constexpr char kTestdata[] = "models/flux/testdata/";
const std::vector<std::string> kPrompts = {"a large red circle",
                                           "a small blue square left of a green star"};

Goldens OpenGoldens() {
  return Goldens(absl::StrCat(kTestdata, "goldens.safetensors"), Device::Cpu());
}

std::string SmallFlux(const std::string& name = "flux") {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  WriteSmallFolder(absl::StrCat(kTestdata, "tiny"), folder);
  return folder;
}

absl::StatusOr<std::unique_ptr<LatentPipeline>> TryLoad(const std::string& folder,
                                                        const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(LatentParts parts, ReadFlux(folder, options));
  return LatentPipeline::Load(std::move(parts), options);
}

std::unique_ptr<LatentPipeline> Load(const std::string& folder,
                                     const LoadModelOptions& options = {}) {
  auto pipeline = TryLoad(folder, options);
  DPIPE_CHECK(pipeline.ok()) << pipeline.status();
  return *std::move(pipeline);
}

NamedTensors Draw(const LatentPipeline& pipeline, float guidance) {
  DrawOptions options;
  options.num_steps = 4;
  options.guidance = guidance;
  auto drawn =
      DrawFromNoise(pipeline, DenoiserOf(pipeline), kPrompts, options, OpenGoldens().Get("noise"));
  DPIPE_CHECK(drawn.ok()) << drawn.status();
  return *std::move(drawn);
}

std::string ErrorOf(const std::string& folder, const LoadModelOptions& options = {}) {
  return std::string(TryLoad(folder, options).status().message());
}

TEST(FluxTest, DrawsTheImagesOfDiffusers) {
  const Goldens goldens = OpenGoldens();
  const auto pipeline = Load(SmallFlux());
  EXPECT_EQ(pipeline->image_size(), 32);
  EXPECT_TRUE(pipeline->notes().empty());
  const auto embeddings = EmbedTexts(*pipeline, kPrompts);
  ASSERT_TRUE(embeddings.ok()) << embeddings.status();
  EXPECT_LT(RelativeError(embeddings->at("context"), goldens.Get("context")), 3e-6);
  EXPECT_LT(RelativeError(embeddings->at("pooled"), goldens.Get("pooled")), 3e-6);
  const NamedTensors drawn = Draw(*pipeline, 3.5f);
  EXPECT_LT(RelativeError(drawn.at("latents"), goldens.Get("guided/latents")), 1e-5);
  EXPECT_LT(RelativeError(drawn.at("pixels"), goldens.Get("guided/pixels")), 1e-5);
  EXPECT_GT(RelativeError(Draw(*pipeline, 1).at("latents"), goldens.Get("guided/latents")), 1e-4)
      << "the guidance scale is embedded";
}

// Makes a folder of the same weights without the embedding of the guidance scale, as schnell's.
std::string PlainFlux() {
  const std::string folder = SmallFlux("plain");
  NamedTensors weights = DenoiserOf(*Load(folder));
  for (auto it = weights.begin(); it != weights.end();) {
    it = absl::StrContains(it->first, "guidance_embedder") ? weights.erase(it) : std::next(it);
  }
  const std::string config = *ReadFile(folder + "/transformer/config.json");
  fs::remove_all(folder + "/transformer");
  fs::create_directory(folder + "/transformer");
  EXPECT_TRUE(WriteFileAtomically(folder + "/transformer/config.json", config).ok());
  EditJson(folder + "/transformer/config.json", {{"guidance_embeds", false}});
  EXPECT_TRUE(SaveWeights(absl::StrCat(folder, "/transformer/", kDiffusersWeights), weights).ok());
  EditJson(folder + "/scheduler/scheduler_config.json", {{"use_dynamic_shifting", false}});
  return folder;
}

TEST(FluxTest, WithoutEmbeddedGuidanceItIsClassifierFree) {
  const Goldens goldens = OpenGoldens();
  const auto pipeline = Load(PlainFlux());
  EXPECT_FALSE(pipeline->denoiser().embeds_guidance());
  const NamedTensors drawn = Draw(*pipeline, 2.5f);
  EXPECT_LT(RelativeError(drawn.at("latents"), goldens.Get("plain/latents")), 1e-5);
  EXPECT_LT(RelativeError(drawn.at("pixels"), goldens.Get("plain/pixels")), 1e-5);
}

// Runs the components of a training step.
TEST(FluxTest, LossAndGradientsOfAStepAreThoseOfTorch) {
  const Goldens goldens = OpenGoldens();
  const auto pipeline = Load(SmallFlux());
  const Tensor noise = goldens.Get("train/noise");
  ASSERT_TRUE(pipeline->LoadFrozen(kVaeEncoder).ok());
  const auto encoded = RunProgram(
      pipeline->model().component(kVaeEncoder).program, *pipeline->frozen_parameters()[kVaeEncoder],
      {{"pixels", goldens.Get("train/pixels")},
       {"vae_noise", Tensor::Zeros(Device::Cpu(), noise.shape(), DType::kF32)}});
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_LT(RelativeError(encoded->at("latents"), goldens.Get("train/latents")), 1e-5);
  const StepErrors errors = CompareStep(*pipeline, kPrompts, encoded->at("latents"), goldens);
  EXPECT_LT(errors.losses, 1e-6);
  EXPECT_LT(errors.gradient, 3e-5) << errors.parameter;
  EXPECT_EQ(errors.num_trained, pipeline->model().backbone().program.num_parameters());
}

TEST(FluxTest, SavesAFolderThatLoadsTheSame) {
  const auto pipeline = Load(SmallFlux());
  const NamedTensors random = pipeline->RandomDenoiser(3);
  const std::string saved = ::testing::TempDir() + "/saved";
  fs::remove_all(saved);
  ASSERT_TRUE(pipeline->Save(saved, random).ok());
  // The trained component is one file; the others are copied in the shards that were read.
  for (const auto& [file, is_there] :
       {std::make_pair("transformer/diffusion_pytorch_model.safetensors", true),
        {"transformer/diffusion_pytorch_model.safetensors.index.json", false},
        {"transformer/diffusion_pytorch_model-00001-of-00003.safetensors", false},
        {"text_encoder_2/model.safetensors.index.json", true},
        {"tokenizer_2/spiece.model", true},
        {"scheduler/scheduler_config.json", true}}) {
    EXPECT_EQ(fs::exists(absl::StrCat(saved, "/", file)), is_there) << file;
  }
  EXPECT_EQ(*ReadFile(saved + "/scheduler/scheduler_config.json"),
            *ReadFile(pipeline->folder() + "/scheduler/scheduler_config.json"));
  const auto again = Load(saved);
  const NamedTensors loaded = DenoiserOf(*again);
  ASSERT_EQ(loaded.size(), random.size());
  for (const auto& [name, tensor] : random) EXPECT_TRUE(SameBits(tensor, loaded.at(name))) << name;
  const auto before = EmbedTexts(*pipeline, kPrompts), after = EmbedTexts(*again, kPrompts);
  ASSERT_TRUE(before.ok() && after.ok());
  for (const auto& [name, tensor] : *before) {
    EXPECT_TRUE(SameBits(tensor, after->at(name))) << name;
  }
}

TEST(FluxTest, TextsHaveTheUsualLength) {
  const auto length = [](const std::string& folder, int requested) {
    LoadModelOptions options;
    options.max_sequence_length = requested;
    return ReadFlux(folder, options)->text_encoders[1].tokenizer->max_length();
  };
  const std::string dev = SmallFlux(), schnell = PlainFlux();
  EXPECT_EQ(length(dev, 0), kSmallT5Tokens);
  EXPECT_EQ(length(dev, 77), 77);
  for (const std::string& folder : {dev, schnell}) {
    fs::remove(folder + "/tokenizer_2/tokenizer_config.json");
  }
  EXPECT_EQ(length(dev, 0), 512);
  EXPECT_EQ(length(schnell, 0), 256);
}

TEST(FluxTest, PartsThatDoNotFitAreNamed) {
  const std::string folder = SmallFlux();
  const auto error = [&](const std::string& file, const Json& changes) {
    SmallFlux();
    EditJson(folder + "/" + file, changes);
    return ErrorOf(folder);
  };
  EXPECT_EQ(error("text_encoder/config.json", {{"hidden_size", 32}}),
            folder +
                ": the hidden_size of text_encoder is 32, but the transformer's "
                "pooled_projection_dim is 16");
  EXPECT_EQ(error("transformer/config.json", {{"joint_attention_dim", 32}}),
            folder +
                ": the d_model of text_encoder_2 is 24, but the transformer's "
                "joint_attention_dim is 32");
  EXPECT_EQ(error("text_encoder_2/config.json", {{"vocab_size", 1500}}),
            folder + ": tokenizer_2 has 1600 tokens, but the vocab_size of text_encoder_2 is 1500");
  EXPECT_EQ(error("vae/config.json", {{"latent_channels", 16}}),
            folder + "/vae/config.json: the VAE has 16 latent channels, but the transformer has 4");
  EXPECT_THAT(error("text_encoder/config.json",
                    {{"architectures", {"CLIPTextModelWithProjection"}}, {"projection_dim", 8}}),
              HasSubstr("FLUX.1 has a CLIPTextModel"));
  EXPECT_THAT(error("scheduler/scheduler_config.json", {{"use_karras_sigmas", true}}),
              HasSubstr("scheduler_config.json: "));
  SmallFlux();
  LoadModelOptions options;
  options.min_snr_gamma = 5;
  EXPECT_EQ(ErrorOf(folder, options),
            folder + ": min-SNR weighting is not supported for FLUX.1; leave it out");
  options.min_snr_gamma = 0;
  options.flow_sampling.mode_scale = 2;
  EXPECT_THAT(ErrorOf(folder, options), HasSubstr("mode_scale is 2; expected a number from -1"));
}

// Adds adapters whose up parts are not zero, and saves them.
std::string SaveAdapters(const LoadModelOptions& options, const std::string& name) {
  const auto pipeline = Load(SmallFlux(), options);
  NamedTensors parameters = DenoiserOf(*pipeline);
  SetAdapters(&parameters);
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", name);
  fs::remove_all(folder);
  EXPECT_TRUE(pipeline->Save(folder, parameters).ok());
  return folder;
}

LoadModelOptions AdapterOptions(const std::vector<std::string>& targets,
                                LoraFormat format = LoraFormat::kDiffusers) {
  LoadModelOptions options;
  options.lora = {2, 0.5f, targets};
  options.lora_format = format;
  return options;
}

TEST(FluxAdaptersTest, DrawsWithAdaptersOfDiffusers) {
  const Goldens goldens = OpenGoldens();
  LoadModelOptions options;
  options.adapters_file = absl::StrCat(kTestdata, "lora");
  const auto pipeline = Load(SmallFlux(), options);
  EXPECT_TRUE(pipeline->notes().empty());
  const Tensor drawn = Draw(*pipeline, 3.5f).at("latents");
  EXPECT_LT(RelativeError(drawn, goldens.Get("lora/latents")), 1e-5);
  EXPECT_GT(RelativeError(drawn, goldens.Get("guided/latents")), 0.1);
}

TEST(FluxAdaptersTest, BothKindsOfNamesHoldTheSameAdapters) {
  for (const std::vector<std::string>& targets :
       {std::vector<std::string>{}, {"all-linear"}, {"attn.to_k", "proj_out"}}) {
    const std::string ours = SaveAdapters(AdapterOptions(targets), "diffusers_names");
    const std::string kohya =
        SaveAdapters(AdapterOptions(targets, LoraFormat::kKohya), "kohya_names");
    const auto file = SafetensorsFile::Open(absl::StrCat(ours, "/", kLoraFile));
    ASSERT_TRUE(file.ok()) << file.status();
    for (const SafetensorsView& view : file->tensors()) {
      EXPECT_TRUE(absl::StartsWith(view.name, "transformer.")) << view.name;
    }
    const auto fused = SafetensorsFile::Open(absl::StrCat(kohya, "/", kLoraFile));
    ASSERT_TRUE(fused.ok()) << fused.status();
    for (const SafetensorsView& view : fused->tensors()) {
      EXPECT_TRUE(absl::StartsWith(view.name, "lora_unet_")) << view.name;
    }
    const SafetensorsView* down =
        fused->Find("lora_unet_double_blocks_1_img_attn_qkv.lora_down.weight");
    ASSERT_NE(down, nullptr);
    EXPECT_EQ(Shape(down->shape), Shape({targets.size() == 2 ? 2 : 6, 16}));
    const NamedTensors merged = DenoiserOf(*Load(ours)), same = DenoiserOf(*Load(kohya));
    const NamedTensors plain = DenoiserOf(*Load(SmallFlux()));
    int changed = 0;
    for (const auto& [name, tensor] : merged) {
      EXPECT_LT(RelativeError(same.at(name), tensor), 1e-6) << name;
      changed += !SameBits(tensor, plain.at(name));
    }
    const int linear = 10 + 2 * 14 + 2 * 6;
    EXPECT_EQ(changed, targets.empty() ? 2 * 12 + 2 * 3 : targets.size() == 1 ? linear : 4 + 3);
    // Training goes on from either.
    const NamedTensors start = DenoiserOf(*Load(ours, AdapterOptions(targets)));
    const NamedTensors from_kohya = DenoiserOf(*Load(kohya, AdapterOptions(targets)));
    for (const auto& [name, tensor] : start) {
      ASSERT_EQ(from_kohya.at(name).shape(), tensor.shape()) << name;
      EXPECT_LE(RelativeError(from_kohya.at(name), tensor), 1e-6) << name;
    }
  }
}

TEST(FluxAdaptersTest, ProblemsAreNamed) {
  const std::string folder = SmallFlux();
  EXPECT_EQ(ErrorOf(folder, AdapterOptions({"attn.to_q", "attn2.to_q"})),
            "low-rank adapters of attn2.to_q: no layer of the transformer that can be adapted has "
            "such a name; name layers, or their last parts, as in the weights' names: attn.to_q");
  NamedTensors wrong;
  const std::string name = "lora_unet_single_blocks_0_linear1";
  wrong[name + ".lora_down.weight"] = Tensor::Zeros(Device::Cpu(), {2, 16}, DType::kF32);
  wrong[name + ".lora_up.weight"] = Tensor::Zeros(Device::Cpu(), {48, 2}, DType::kF32);
  LoadModelOptions options;
  options.adapters_file = ::testing::TempDir() + "/wrong.safetensors";
  ASSERT_TRUE(SaveWeights(options.adapters_file, wrong).ok());
  EXPECT_EQ(ErrorOf(folder, options),
            absl::StrCat(options.adapters_file, ": ", name,
                         " has the shapes [2, 16] and [48, 2]; expected [rank, in] and [112, "
                         "rank]"));
}

}  // namespace
}  // namespace dpipe::models
