// Tests which folders of Stable Diffusion are read, corrected or refused, and why.
#include <cstring>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/files/file.h"
#include "data/scenes/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/latent/image_sampler.h"
#include "models/latent/trainable.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/trainable/training_setup.h"
#include "models/weights/weights.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;
constexpr char kTinySd[] = "data/tiny_sd";

const diffusion::NoiseSchedule& ScheduleOf(const LatentPipeline& pipeline) {
  return dynamic_cast<const diffusion::DiffusionObjective&>(pipeline.objective()).schedule();
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

// Copies the model folder and replaces one file.
std::string Broken(const std::string& file, const std::string& content) {
  const std::string folder = ::testing::TempDir() + "/broken";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(kTinySd, folder, std::filesystem::copy_options::recursive);
  std::filesystem::remove(folder + "/" + file);
  EXPECT_TRUE(WriteFileAtomically(folder + "/" + file, content).ok());
  return folder;
}

// Sets the class of the scheduler in the folder's index.
void SetSchedulerClass(const std::string& folder, const std::string& class_name) {
  auto index = nlohmann::ordered_json::parse(*ReadFile(folder + "/model_index.json"));
  index["scheduler"] = {"diffusers", class_name};
  EXPECT_TRUE(WriteFileAtomically(folder + "/model_index.json", index.dump()).ok());
}

// Copies the model folder without the weights of these components.
std::string WithoutWeights(const std::vector<std::string>& components) {
  const std::string folder = ::testing::TempDir() + "/without_weights";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(kTinySd, folder, std::filesystem::copy_options::recursive);
  for (const std::string& component : components) {
    std::filesystem::remove(folder + "/" + component + "/" + kDiffusersWeights);
    std::filesystem::remove(folder + "/" + component + "/" + kTransformersWeights);
  }
  return folder;
}

TEST(StableDiffusionTest, BrokenFoldersAreNamed) {
  EXPECT_THAT(std::string(LoadStableDiffusion("/no/model", {}).status().message()),
              HasSubstr("/no/model"));
  for (const char* file : {"unet/config.json", "vae/config.json", "scheduler/scheduler_config.json",
                           "tokenizer/vocab.json", "text_encoder/config.json"}) {
    const auto model = LoadStableDiffusion(Broken(file, "{ not json"), {});
    EXPECT_FALSE(model.ok()) << file;
    EXPECT_THAT(std::string(model.status().message()),
                HasSubstr(std::filesystem::path(file).filename().string()));
  }
}

TEST(StableDiffusionTest, ConfigsAreCorrectedAsDiffusersCorrectsThem) {
  // As PNDMScheduler writes it.
  const auto pndm = LoadStableDiffusion(
      Broken("scheduler/scheduler_config.json",
             R"({"_class_name": "PNDMScheduler", "beta_schedule": "scaled_linear",
                 "beta_start": 0.00085, "beta_end": 0.012, "skip_prk_steps": true})"),
      {});
  ASSERT_TRUE(pndm.ok()) << pndm.status();
  EXPECT_FALSE(ScheduleOf(**pndm).options().clip_sample);
  EXPECT_EQ(ScheduleOf(**pndm).options().steps_offset, 1);
  const std::string unet = *ReadFile(absl::StrCat(kTinySd, "/unet/config.json"));
  const auto old = LoadStableDiffusion(
      Broken("unet/config.json", absl::StrReplaceAll(unet, {{"\"0.42.1\"", "\"0.8.1\""}})), {});
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ((*old)->image_size(), 256) << "64 latent pixels instead of 16, 4 pixels each";
}

// The folder's scheduler does not support the schedule used in training.
TEST(StableDiffusionTest, ZeroTerminalSnrIsSavedForDiffusers) {
  const std::string pndm = R"({"_class_name": "PNDMScheduler", "beta_schedule": "scaled_linear",
      "beta_start": 0.00085, "beta_end": 0.012, "prediction_type": "v_prediction"})";
  const std::string folder = Broken("scheduler/scheduler_config.json", pndm);
  SetSchedulerClass(folder, "PNDMScheduler");
  LoadModelOptions options;
  options.zero_terminal_snr = true;
  const auto model = LoadStableDiffusion(folder, options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(ScheduleOf(**model).alpha_cumprod(999), 0);
  EXPECT_TRUE(ScheduleOf(**model).options().timestep_spacing ==
              diffusion::TimestepSpacing::kTrailing);
  const std::string saved = ::testing::TempDir() + "/zero_terminal_snr";
  ASSERT_TRUE((*model)->Save(saved, (*model)->RandomDenoiser(3)).ok());
  EXPECT_THAT(*ReadFile(saved + "/scheduler/scheduler_config.json"), HasSubstr("DDIMScheduler"));
  const std::string index = *ReadFile(saved + "/model_index.json");
  EXPECT_THAT(index, HasSubstr("DDIMScheduler"));
  EXPECT_THAT(index, HasSubstr("AutoencoderKL"));
}

TEST(StableDiffusionTest, AFolderOfPureNoiseThatPredictsItIsRefused) {
  const auto model = LoadStableDiffusion(
      Broken("scheduler/scheduler_config.json", R"({"rescale_betas_zero_snr": true})"), {});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("scheduler_config.json: zero"));
}

// A folder with only some of its weights is an incomplete copy, not a model to train from scratch.
TEST(StableDiffusionTest, IncompleteFoldersAreRefused) {
  EXPECT_TRUE(LoadStableDiffusion(WithoutWeights({"unet"}), {}).ok());
  const auto model = LoadStableDiffusion(WithoutWeights({"vae"}), {});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("/vae"));
}

TEST(StableDiffusionTest, OtherModelsAreRefusedByName) {
  auto index = nlohmann::ordered_json::parse(*ReadFile("data/tiny_sd/model_index.json"));
  index["text_encoder_2"] = {"transformers", "CLIPTextModelWithProjection"};
  const std::string two_encoders = Broken("model_index.json", index.dump());
  EXPECT_EQ(LoadStableDiffusion(two_encoders, {}).status().message(),
            two_encoders +
                "/model_index.json: a model with a component 'text_encoder_2' is not "
                "supported; only one unet with one text_encoder is supported");
  const std::string tiny =
      Broken("vae/config.json",
             R"({"_class_name": "AutoencoderTiny", "encoder_block_out_channels": [64, 64]})");
  EXPECT_EQ(LoadStableDiffusion(tiny, {}).status().message(),
            tiny +
                "/vae/config.json: '_class_name' is \"AutoencoderTiny\"; only "
                "\"AutoencoderKL\" is supported");
  auto vae = nlohmann::ordered_json::parse(*ReadFile("data/tiny_sd/vae/config.json"));
  vae["latent_channels"] = 16;
  const std::string wide = Broken("vae/config.json", vae.dump());
  EXPECT_EQ(LoadStableDiffusion(wide, {}).status().message(),
            wide + "/vae/config.json: the VAE has 16 latent channels, but the U-Net has 4");
  vae["latent_channels"] = 4;
  vae["in_channels"] = 4;
  const std::string with_alpha = Broken("vae/config.json", vae.dump());
  EXPECT_EQ(LoadStableDiffusion(with_alpha, {}).status().message(),
            with_alpha +
                "/vae/config.json: the VAE has 4 input channels and 3 output channels; "
                "supported are 3 (red, green, blue) and 3");
  vae["in_channels"] = 3;
  vae["shift_factor"] = 0.5;
  const std::string shifted = Broken("vae/config.json", vae.dump());
  EXPECT_EQ(LoadStableDiffusion(shifted, {}).status().message(),
            shifted +
                "/vae/config.json: 'shift_factor' is 0.5; Stable Diffusion 1 and 2 and SDXL "
                "support null or 0");
}

TEST(StableDiffusionTest, TheIndexDeterminesTheSchedulersClass) {
  const std::string folder = Broken(
      "scheduler/scheduler_config.json",
      R"({"_class_name": "PNDMScheduler", "beta_schedule": "scaled_linear", "beta_start": 0.00085,
          "beta_end": 0.012})");
  const auto model = LoadStableDiffusion(folder, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(ScheduleOf(**model).options().scheduler_class, "DDIMScheduler");
  ASSERT_EQ((*model)->notes().size(), 1);
  EXPECT_EQ(
      (*model)->notes()[0],
      folder +
          ": the scheduler is a DDIMScheduler according to model_index.json (which is used, as in "
          "diffusers), but a PNDMScheduler according to scheduler/scheduler_config.json");
  SetSchedulerClass(folder, "PNDMScheduler");
  const auto alike = LoadStableDiffusion(folder, {});
  ASSERT_TRUE(alike.ok()) << alike.status();
  EXPECT_EQ(ScheduleOf(**alike).options().scheduler_class, "PNDMScheduler");
  EXPECT_TRUE((*alike)->notes().empty());
}

// As diffusers writes it; the index names the scheduler's class.
TEST(StableDiffusionTest, TheFoldersSchedulerIsRead) {
  const std::string folder = Broken("scheduler/scheduler_config.json",
                                    R"({"beta_schedule": "scaled_linear", "beta_start": 0.00085,
          "beta_end": 0.012, "lambda_min_clipped": -Infinity, "use_karras_sigmas": true})");
  SetSchedulerClass(folder, "DPMSolverMultistepScheduler");
  const auto model = LoadStableDiffusion(folder, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const diffusion::NoiseScheduleOptions& options = ScheduleOf(**model).options();
  EXPECT_EQ(options.scheduler_class, "DPMSolverMultistepScheduler");
  EXPECT_TRUE(options.use_karras_sigmas);
  const std::string saved = ::testing::TempDir() + "/with_infinity";
  ASSERT_TRUE((*model)->Save(saved, *(*model)->LoadDenoiser()).ok());
  EXPECT_THAT(*ReadFile(saved + "/scheduler/scheduler_config.json"),
              HasSubstr("\"lambda_min_clipped\": -Infinity"));
  EXPECT_TRUE(LoadStableDiffusion(saved, {}).ok());
}

TEST(StableDiffusionTest, InpaintingModelsAreRefusedByName) {
  auto json = nlohmann::ordered_json::parse(*ReadFile("data/tiny_sd/unet/config.json"));
  json["in_channels"] = 9;
  const std::string folder = Broken("unet/config.json", json.dump());
  const std::string message(LoadStableDiffusion(folder, {}).status().message());
  EXPECT_THAT(message, HasSubstr(folder + "/unet/config.json: the U-Net has 9 input channels"));
  EXPECT_THAT(message, HasSubstr("inpainting (9 and 4)"));
}

// The folder resembles public checkpoints: it has components that are not used here, a missing
// component, and the same weights in several formats and precisions.
TEST(StableDiffusionTest, SavesACompletePipeline) {
  const std::string folder = Broken("model_index.json", R"({"_class_name":"StableDiffusionPipeline",
      "feature_extractor":["transformers","CLIPImageProcessor"],
      "image_encoder":["transformers","CLIPVisionModelWithProjection"],
      "requires_safety_checker":true,
      "safety_checker":["stable_diffusion","StableDiffusionSafetyChecker"],
      "scheduler":["diffusers","DDIMScheduler"],"text_encoder":["transformers","CLIPTextModel"],
      "tokenizer":["transformers","CLIPTokenizer"],"unet":["diffusers","UNet2DConditionModel"],
      "vae":["diffusers","AutoencoderKL"]})");
  for (const char* file :
       {"feature_extractor/preprocessor_config.json", "image_encoder/config.json",
        "image_encoder/pytorch_model.bin", "vae/diffusion_pytorch_model.bin",
        "vae/diffusion_pytorch_model.fp16.safetensors", "unet/notes/old.json"}) {
    const std::string path = folder + "/" + file;
    ASSERT_TRUE(MakeParentFolder(path).ok());
    ASSERT_TRUE(WriteFileAtomically(path, file).ok());
  }
  const auto model = LoadStableDiffusion(folder, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string saved = ::testing::TempDir() + "/saved_pipeline";
  std::filesystem::remove_all(saved);
  const absl::Status status = (*model)->Save(saved, (*model)->RandomDenoiser(3));
  ASSERT_TRUE(status.ok()) << status;
  for (const char* file : {"feature_extractor/preprocessor_config.json",
                           "image_encoder/config.json", "image_encoder/pytorch_model.bin"}) {
    EXPECT_EQ(ReadFile(saved + "/" + file).value(), file);
  }
  for (const char* file : {"safety_checker", "vae/diffusion_pytorch_model.bin",
                           "vae/diffusion_pytorch_model.fp16.safetensors", "unet/notes"}) {
    EXPECT_FALSE(std::filesystem::exists(saved + "/" + file)) << file;
  }
  const auto index = nlohmann::json::parse(*ReadFile(saved + "/model_index.json"));
  EXPECT_EQ(index["safety_checker"].dump(), "[null,null]");
  EXPECT_EQ(index["requires_safety_checker"], false);
  EXPECT_EQ(index["feature_extractor"][1], "CLIPImageProcessor");
  EXPECT_EQ(index["image_encoder"][1], "CLIPVisionModelWithProjection");
  EXPECT_EQ(*ReadFile(saved + "/vae/diffusion_pytorch_model.safetensors"),
            *ReadFile(folder + "/vae/diffusion_pytorch_model.safetensors"));
  EXPECT_TRUE(LoadStableDiffusion(saved, {}).ok());
}

// The origin of each part is reported, and a folder's weights are never ignored silently.
TEST(StableDiffusionTest, WeightsComeFromTheFolderIfPresent) {
  using Weights = TrainingSetupOptions::Weights;
  const std::string data = ::testing::TempDir() + "/scenes";
  BuiltInDatasetOptions scenes;
  scenes.count = 24;
  ASSERT_TRUE(EnsureBuiltInDataset(data, scenes).ok());
  TrainingSetupOptions options;
  options.data.folder = data;
  options.num_devices = 1;
  options.global_batch = 4;
  options.seed = 7;
  const auto described = [&options](const std::string& folder, Weights weights) {
    options.model_folder = folder;
    options.weights = weights;
    const auto setup = TrainingSetup::Create(options);
    EXPECT_TRUE(setup.ok()) << setup.status();
    EXPECT_THAT((*setup)->Describe(), HasSubstr((*setup)->DescribeWeights() + "\n"));
    return (*setup)->DescribeWeights();
  };
  EXPECT_EQ(described(kTinySd, Weights::kFolderIfAny),
            "Weights:  unet from data/tiny_sd/unet; vae and text_encoder from data/tiny_sd");
  EXPECT_EQ(described(kTinySd, Weights::kRandom),
            "Weights:  unet random (seed 7); vae and text_encoder from data/tiny_sd");
  const std::string bare = WithoutWeights({"unet", "vae", "text_encoder"});
  EXPECT_EQ(described(bare, Weights::kFolderIfAny),
            "Weights:  unet random (seed 7); vae and text_encoder random");
  options.weights_from = "checkpoint at step 40";
  EXPECT_EQ(described(kTinySd, Weights::kRandom),
            "Weights:  checkpoint at step 40; vae and text_encoder from data/tiny_sd");

  options.model_folder = kTinySd;
  options.weights = Weights::kFolderIfAny;
  const auto setup = TrainingSetup::Create(options);
  const auto stored = LoadStableDiffusion(kTinySd, {});
  ASSERT_TRUE(setup.ok() && stored.ok()) << setup.status();
  const char kName[] = "conv_in.weight";
  EXPECT_TRUE(SameBits(nn::ReadAll(*(*setup)->job().backbone_parameters,
                                   {&(*setup)->job().model->backbone().program})
                           ->at(kName),
                       (*stored)->LoadDenoiser()->at(kName)));
  // Damaged weights are not replaced by random ones.
  options.model_folder = Broken("unet/diffusion_pytorch_model.safetensors", "x");
  EXPECT_FALSE(TrainingSetup::Create(options).ok());
  // Adapters need trained weights.
  options.model_folder = WithoutWeights({"unet"});
  options.model.lora.rank = 2;
  EXPECT_EQ(TrainingSetup::Create(options).status().code(), absl::StatusCode::kNotFound);
  options.weights_from.clear();
  EXPECT_EQ(described(kTinySd, Weights::kFolderIfAny),
            "Weights:  unet from data/tiny_sd/unet, with new adapters; vae and text_encoder from "
            "data/tiny_sd");
}

TEST(StableDiffusionTest, FoldersWithoutWeightsAreRandom) {
  const std::string folder = WithoutWeights({"unet", "vae", "text_encoder"});
  const std::string data = ::testing::TempDir() + "/scenes";
  BuiltInDatasetOptions scenes;
  scenes.count = 24;
  ASSERT_TRUE(EnsureBuiltInDataset(data, scenes).ok());
  TrainingSetupOptions options;
  options.model_folder = folder;
  options.data.folder = data;
  options.num_devices = 1;
  options.global_batch = 4;
  const auto setup = TrainingSetup::Create(options);
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_THAT((*setup)->Describe(), HasSubstr("random frozen components"));
  options.weights = TrainingSetupOptions::Weights::kFolder;
  EXPECT_EQ(TrainingSetup::Create(options).status().code(), absl::StatusCode::kNotFound);
  const LatentPipeline& model =
      dynamic_cast<const TrainableLatentModel&>((*setup)->model()).pipeline();
  EXPECT_TRUE(model.frozen_is_random());
  EXPECT_FALSE(model.has_denoiser_weights());

  // A saved folder is complete and loads the weights used in training.
  const std::string saved = ::testing::TempDir() + "/random_saved";
  ASSERT_TRUE(model.Save(saved, model.RandomDenoiser(3)).ok());
  const auto again = LoadStableDiffusion(saved, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE((*again)->frozen_is_random());
  for (int component : {kVaeEncoder, kFirstTextEncoder}) {
    ASSERT_TRUE(model.LoadFrozen(component).ok() && (*again)->LoadFrozen(component).ok());
    const nn::ParameterSet& before = *model.frozen_parameters()[component];
    const nn::ParameterSet& after = *(*again)->frozen_parameters()[component];
    for (nn::ParameterId id : before.ids()) {
      EXPECT_TRUE(SameBits(before.weight(id).master(), after.weight(id).master()))
          << before.program().parameter(id).name;
    }
  }
  EXPECT_TRUE(ImageSampler::Create(again->get(), model.RandomDenoiser(3), DType::kF32).ok());
}

}  // namespace
}  // namespace dpipe::models
