// Tests Stable Diffusion as a whole: loading, saving, drawing.
#include "models/stable_diffusion/stable_diffusion.h"

#include <array>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/files/file.h"
#include "core/nn/same_structure.h"
#include "data/images/image_grid.h"
#include "data/scenes/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/folder/model_index.h"
#include "models/latent/image_sampler.h"
#include "models/latent/trainable.h"
#include "models/lora/lora.h"
#include "models/trainable/training_setup.h"
#include "models/unet/unet.h"
#include "models/unet/unet_denoiser.h"
#include "models/weights/weights.h"
#include "nlohmann/json.hpp"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;
constexpr char kTinySd[] = "data/tiny_sd";
constexpr int kUNet = kFirstTextEncoder + 1;

const diffusion::NoiseSchedule& ScheduleOf(const LatentPipeline& pipeline) {
  return dynamic_cast<const diffusion::DiffusionObjective&>(pipeline.objective()).schedule();
}

const UNetConfig& UNetOf(const LatentPipeline& pipeline) {
  return dynamic_cast<const UNetDenoiser&>(pipeline.denoiser()).config();
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

TEST(StableDiffusionTest, LoadsTheBuiltInModel) {
  const auto model = LoadStableDiffusion(kTinySd, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->image_size(), 64);
  EXPECT_EQ((*model)->latent_size().height, 16);
  EXPECT_EQ((*model)->model().backbone_index(), kUNet);
  const nn::Program& unet = (*model)->model().component(kUNet).program;
  EXPECT_EQ(unet.ParameterCount(unet.all_layers()), 2220820);
  const auto weights = (*model)->LoadDenoiser();
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(static_cast<int>(weights->size()), unet.num_parameters());
}

TEST(StableDiffusionTest, ModelsOfOtherSizesHaveTheSameStructure) {
  LoadModelOptions adapted;
  adapted.lora.rank = 2;
  LoadModelOptions self_conditioned;
  self_conditioned.self_conditioning = true;
  LoadModelOptions placed;
  placed.coordinates = true;
  for (const LoadModelOptions& options : {{}, adapted, self_conditioned, placed}) {
    const auto model = LoadStableDiffusion(kTinySd, options);
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->parts().size_multiple(), 8) << "4 of the VAE, 2 of the U-Net";
    const auto wide = (*model)->MakeModel({80, 48});
    ASSERT_TRUE(wide.ok()) << wide.status();
    const absl::Status same = nn::CheckSameStructure((*model)->model(), *wide);
    EXPECT_TRUE(same.ok()) << same;
    const nn::Program& unet = wide->component(kUNet).program;
    EXPECT_EQ(unet.value(unet.InputNamed("noise")).type.shape, Shape({12, 20, 4}));
    EXPECT_THAT(std::string((*model)->MakeModel({80, 44}).status().message()),
                HasSubstr("pictures of 80 x 44 pixels: both sides must be multiples of 8"));
  }
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

TEST(StableDiffusionTest, SavesAFolderThatLoadsTheSame) {
  const auto model = LoadStableDiffusion(kTinySd, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto unet = (*model)->RandomDenoiser(3);
  const std::string folder = ::testing::TempDir() + "/saved";
  ASSERT_TRUE((*model)->Save(folder, unet).ok());
  const auto again = LoadStableDiffusion(folder, {});
  ASSERT_TRUE(again.ok()) << again.status();
  const auto loaded = (*again)->LoadDenoiser();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const auto& [name, tensor] : unet) EXPECT_TRUE(SameBits(tensor, loaded->at(name))) << name;
  EXPECT_FALSE((*again)->Save(folder, unet).ok()) << "over itself";
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

// A folder with only some of its weights is an incomplete copy, not a model to train from scratch.
TEST(StableDiffusionTest, IncompleteFoldersAreRefused) {
  EXPECT_TRUE(LoadStableDiffusion(WithoutWeights({"unet"}), {}).ok());
  const auto model = LoadStableDiffusion(WithoutWeights({"vae"}), {});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("/vae"));
}

// An image depends on its number, the seed and the prompt, but not on the batch or the workers.
TEST(ImageSamplerTest, DrawsTheSameInAnyBatch) {
  const auto model = LoadStableDiffusion(kTinySd, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto sampler = ImageSampler::Create(model->get(), *(*model)->LoadDenoiser(), DType::kF32);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  const std::vector<std::shared_ptr<Device>> devices = {Device::Cpu(), Device::Cpu()};
  const auto workers = StartWorkers(devices);
  const std::vector<std::string> prompts = {"a red circle", "a blue square", "a green star"};
  DrawOptions options;
  options.num_steps = 4;
  options.batch = 3;
  const auto together = (*sampler)->Draw(prompts, options, {workers[0].get()});
  options.batch = 2;
  const auto apart = (*sampler)->Draw(prompts, options, {workers[0].get(), workers[1].get()});
  ASSERT_TRUE(together.ok() && apart.ok()) << together.status() << apart.status();
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*together)[i].pixels, (*apart)[i].pixels) << "image " << i;
  EXPECT_NE((*together)[0].pixels, (*together)[1].pixels);
  const Image grid = MakeGrid(*together, {/*columns=*/2, /*margin=*/3, /*zoom=*/2});
  EXPECT_EQ(grid.width, 2 * (128 + 3) + 3);
  EXPECT_EQ(grid.height, 2 * (128 + 3) + 3);
}

// A guidance of 1 is the conditional prediction alone, and the limit of guidance near 1. Bytes may
// differ by one, because the U-Net's kernels may depend on the number of samples.
TEST(ImageSamplerTest, GuidanceOfOneIsTheLimitOfGuidance) {
  const auto model = LoadStableDiffusion(kTinySd, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto sampler = ImageSampler::Create(model->get(), *(*model)->LoadDenoiser(), DType::kF32);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  const auto workers = StartWorkers({Device::Cpu()});
  const std::vector<std::string> prompts = {"a red circle", "a blue square"};
  DrawOptions options;
  options.num_steps = 3;
  options.guidance = 1;
  options.should_stop = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled((*sampler)->Draw(prompts, options, {workers[0].get()}).status()));
  options.should_stop = nullptr;
  const auto alone = (*sampler)->Draw(prompts, options, {workers[0].get()});
  options.guidance = 1 + 1e-6f;
  const auto guided = (*sampler)->Draw(prompts, options, {workers[0].get()});
  options.guidance = 4;
  const auto strongly = (*sampler)->Draw(prompts, options, {workers[0].get()});
  ASSERT_TRUE(alone.ok() && guided.ok() && strongly.ok())
      << alone.status() << guided.status() << strongly.status();
  for (int i = 0; i < 2; ++i) {
    for (size_t p = 0; p < (*alone)[i].pixels.size(); ++p) {
      ASSERT_NEAR((*alone)[i].pixels[p], (*guided)[i].pixels[p], 1) << "image " << i;
    }
    EXPECT_NE((*alone)[i].pixels, (*strongly)[i].pixels);
  }
}

// With zero weights for the channels of the U-Net's own estimate, pictures do not change.
TEST(SelfConditioningTest, StartsAsThePlainModelAndIsKept) {
  const auto plain = LoadStableDiffusion(kTinySd, {});
  LoadModelOptions options;
  options.self_conditioning = true;
  const auto requested = LoadStableDiffusion(kTinySd, options);
  ASSERT_TRUE(plain.ok() && requested.ok()) << plain.status() << requested.status();
  EXPECT_EQ((*requested)->model().component(kUNet).self_conditioning.input, "estimate");
  const auto workers = StartWorkers({Device::Cpu()});
  DrawOptions drawing;
  drawing.num_steps = 3;
  std::vector<std::vector<Image>> images;
  for (const auto* model : {&*plain, &*requested}) {
    const auto sampler = ImageSampler::Create(model->get(), *(*model)->LoadDenoiser(), DType::kF32);
    ASSERT_TRUE(sampler.ok()) << sampler.status();
    images.push_back(*(*sampler)->Draw({"a red circle"}, drawing, {workers[0].get()}));
  }
  for (size_t i = 0; i < images[0][0].pixels.size(); ++i) {
    ASSERT_NEAR(images[0][0].pixels[i], images[1][0].pixels[i], 1) << "byte " << i;
  }
  const std::string saved = ::testing::TempDir() + "/self_conditioned";
  ASSERT_TRUE((*requested)->Save(saved, *(*requested)->LoadDenoiser()).ok());
  const auto again = LoadStableDiffusion(saved, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(UNetOf(**again).self_conditioning());
  EXPECT_EQ((*again)->LoadDenoiser()->at("conv_in.weight").dim(1), 8);
  options.lora.rank = 2;
  EXPECT_EQ(LoadStableDiffusion(kTinySd, options).status().message(),
            "self-conditioning needs training of the whole U-Net, not of adapters or a ControlNet");
}

// Saves tiny_sd with self-conditioning but without kFurtherInputKey, and with this class.
std::string WidenedWithoutKey(const std::string& class_name) {
  LoadModelOptions options;
  options.self_conditioning = true;
  const auto requested = LoadStableDiffusion(kTinySd, options);
  EXPECT_TRUE(requested.ok()) << requested.status();
  const std::string folder = ::testing::TempDir() + "/widened";
  EXPECT_TRUE((*requested)->Save(folder, *(*requested)->LoadDenoiser()).ok());
  for (const auto& [file, key, value] :
       std::vector<std::array<std::string, 3>>{{"unet/config.json", "_further_input", ""},
                                               {"model_index.json", "_class_name", class_name}}) {
    auto json = nlohmann::ordered_json::parse(*ReadFile(folder + "/" + file));
    EXPECT_TRUE(json.contains(key)) << file;
    if (value.empty()) {
      json.erase(key);
    } else {
      json[key] = value;
    }
    EXPECT_TRUE(WriteFileAtomically(folder + "/" + file, json.dump()).ok());
  }
  return folder;
}

TEST(SelfConditioningTest, ForeignChannelsAreNotReadAsTheEstimate) {
  const auto ours = LoadStableDiffusion(WidenedWithoutKey(kStableDiffusionClass), {});
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_TRUE(UNetOf(**ours).self_conditioning());
  // When saved again, it has the key.
  const std::string saved = ::testing::TempDir() + "/widened_again";
  ASSERT_TRUE((*ours)->Save(saved, *(*ours)->LoadDenoiser()).ok());
  EXPECT_THAT(*ReadFile(saved + "/unet/config.json"),
              HasSubstr("\"_further_input\": \"estimate\""));

  // A guess is noted; with the key in the folder there is nothing to note.
  ASSERT_EQ((*ours)->notes().size(), 1);
  EXPECT_THAT((*ours)->notes()[0],
              HasSubstr("has 8 input channels for 4 output channels and no '_further_input'; it is "
                        "read as 'estimate'"));
  const auto again = LoadStableDiffusion(saved, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE((*again)->notes().empty());

  // In another pipeline the channels have another meaning.
  const std::string foreign = WidenedWithoutKey("StableDiffusionInstructPix2PixPipeline");
  LoadModelOptions options;
  for (bool asked : {false, true}) {
    options.self_conditioning = asked;
    EXPECT_EQ(LoadStableDiffusion(foreign, options).status().message(),
              foreign +
                  "/model_index.json: a StableDiffusionInstructPix2PixPipeline is not "
                  "supported; supported are StableDiffusionPipeline, "
                  "StableDiffusionControlNetPipeline");
  }
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
  EXPECT_EQ(
      LoadStableDiffusion(shifted, {}).status().message(),
      shifted +
          "/vae/config.json: 'shift_factor' is 0.5; Stable Diffusion 1 and 2 support null or 0");
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
