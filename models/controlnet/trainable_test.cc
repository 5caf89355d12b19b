#include "models/controlnet/trainable.h"

#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "core/base/files/file.h"
#include "core/nn/execution.h"
#include "core/nn/model.h"
#include "core/tensor/device_worker.h"
#include "data/folders/folder_dataset.h"
#include "data/loader.h"
#include "data/scenes/generator.h"
#include "gtest/gtest.h"
#include "models/controlnet/controlnet.h"
#include "models/stable_diffusion/stable_diffusion.h"
#include "models/trainable/load.h"

namespace dpipe::models {
namespace {

constexpr char kTinySd[] = "data/tiny_sd";

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

std::unique_ptr<TrainableModel> LoadControlNet(const std::string& folder) {
  LoadModelOptions options;
  options.kind = "controlnet";
  auto model = LoadTrainableModel(folder, options);
  DPIPE_CHECK(model.ok()) << model.status();
  return *std::move(model);
}

std::unique_ptr<DataLoader> Scenes(int global_batch) {
  const std::string folder = ::testing::TempDir() + "/scenes_with_conditions";
  BuiltInDatasetOptions options;
  options.count = 24;
  options.with_conditions = true;
  DPIPE_CHECK(EnsureBuiltInDataset(folder, options).ok());
  DataLoaderOptions loading;
  loading.global_batch = global_batch;
  loading.image_size = 64;
  loading.with_conditions = true;
  loading.random_flip = true;
  auto loader = DataLoader::Create(*FolderDataset::Open(folder), loading);
  DPIPE_CHECK(loader.ok()) << loader.status();
  return *std::move(loader);
}

TEST(TrainableControlNetTest, ModelsOfOtherSizesHaveTheSameStructure) {
  const auto model = LoadControlNet(kTinySd);
  const auto wide = model->MakeModel({80, 48});
  ASSERT_TRUE(wide.ok()) << wide.status();
  const absl::Status same = nn::CheckSameStructure(model->model(), *wide);
  EXPECT_TRUE(same.ok()) << same;
  const nn::Program& backbone = wide->backbone().program;
  EXPECT_EQ(backbone.value(backbone.InputNamed("noise")).type.shape, Shape({12, 20, 4}));
  EXPECT_EQ(backbone.value(backbone.InputNamed("condition")).type.shape, Shape({48, 80, 3}));
  EXPECT_EQ(std::string(model->MakeModel({80, 44}).status().message()),
            "data/tiny_sd: pictures of 80 x 44 pixels: both sides must be multiples of 8");
}

TEST(TrainableControlNetTest, BeginsWithACopyOfTheUNet) {
  const auto model = LoadControlNet(kTinySd);
  EXPECT_TRUE(model->wants_conditions());
  EXPECT_EQ(model->default_caption_drop(), 0.5);
  EXPECT_EQ(model->Describe().rfind("tiny_sd with ControlNet, ", 0), 0) << model->Describe();
  const auto parameters = model->InitialParameters(TrainableModel::Start::kRandom, 3);
  const auto unet = dynamic_cast<TrainableControlNet&>(*model).pipeline().LoadDenoiser();
  ASSERT_TRUE(parameters.ok() && unet.ok()) << parameters.status();
  int copied = 0, zeros = 0, random = 0, locked = 0;
  for (const auto& [name, tensor] : *parameters) {
    double norm = 0;
    for (float x : tensor.span<float>()) norm += std::abs(x);
    if (absl::StartsWith(name, kDecoderPrefix)) {
      EXPECT_TRUE(SameBits(tensor, unet->at(name.substr(std::strlen(kDecoderPrefix))))) << name;
      ++locked;
    } else if (unet->count(name) > 0) {
      EXPECT_TRUE(SameBits(tensor, unet->at(name))) << name;
      ++copied;
    } else if (absl::StartsWith(name, "controlnet_cond_embedding.") &&
               !absl::StrContains(name, "conv_out")) {
      EXPECT_GT(norm, 0) << name;
      ++random;
    } else {
      EXPECT_EQ(norm, 0) << name;
      ++zeros;
    }
  }
  EXPECT_EQ(copied + locked, static_cast<int>(unet->size()));
  EXPECT_EQ(random, 2 * 5) << "conv_in and four blocks: 64 pixels become 16";
  EXPECT_EQ(zeros, 2 * (1 + 4 + 1)) << "the hint's last one, four skips, the middle";
  EXPECT_FALSE(model->InitialParameters(TrainableModel::Start::kFolder, 3).ok());
  EXPECT_FALSE(model->has_weights());
  EXPECT_EQ(model->DescribeStart(TrainableModel::Start::kRandom, 3),
            "new controlnet, the unet's encoder copied and other layers initialised (seed 3)");
  EXPECT_EQ(model->DescribeFrozen(), "unet, vae and text_encoder from data/tiny_sd");
}

// A sample's condition is a function of (step, sample) and is aligned with its image.
TEST(TrainableControlNetTest, InputsHaveConditions) {
  const auto model = LoadControlNet(kTinySd);
  const auto loader = Scenes(8);
  InputsOptions options;
  options.caption_drop = model->default_caption_drop();
  const auto inputs = model->MakeInputs(loader.get(), options);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  const auto device = Device::Cpu();
  const auto whole = (*inputs)->Load("controlnet", "condition", 2, {0, 8}, device);
  const auto part = (*inputs)->Load("controlnet", "condition", 2, {3, 5}, device);
  ASSERT_TRUE(whole.ok() && part.ok()) << whole.status();
  EXPECT_EQ(whole->shape(), Shape({8, 64, 64, 3}));
  EXPECT_TRUE(SameBits(whole->Slice(3, 5), *part));
  for (float x : whole->span<float>()) ASSERT_TRUE(x >= 0 && x <= 1) << x;
  // The locked encoder and the backbone get the same noise and timesteps.
  for (const char* input : {"noise", "timesteps"}) {
    const auto locked = (*inputs)->Load("locked_encoder", input, 2, {0, 8}, device);
    const auto backbone = (*inputs)->Load("controlnet", input, 2, {0, 8}, device);
    ASSERT_TRUE(locked.ok() && backbone.ok()) << locked.status();
    EXPECT_TRUE(SameBits(*locked, *backbone)) << input;
  }
  EXPECT_EQ((*inputs)->Load("controlnet", "skip_0", 2, {0, 8}, device).status().code(),
            absl::StatusCode::kUnimplemented);
}

// While the zero convolutions are zero, pictures are those of the plain model for every condition.
// Afterwards they depend on the condition.
TEST(TrainableControlNetTest, DrawsAsThePlainModelAtFirst) {
  const auto model = LoadControlNet(kTinySd);
  const auto plain = LoadTrainableModel(kTinySd, {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  auto parameters = model->InitialParameters(TrainableModel::Start::kRandom, 3);
  const auto unet = (*plain)->InitialParameters(TrainableModel::Start::kFolder, 0);
  ASSERT_TRUE(parameters.ok() && unet.ok());
  const auto workers = StartWorkers({Device::Cpu()});
  DrawRequest request;
  request.prompts = {"a red circle", "a blue square"};
  request.options.num_steps = 3;
  const auto expected = (*plain)->Draw(*unet, request, {workers[0].get()}, nullptr);
  EXPECT_FALSE(model->Draw(*parameters, request, {workers[0].get()}, nullptr).ok())
      << "no conditions";
  for (int i = 0; i < 2; ++i) {
    Image condition(64, 64);
    condition.pixels.assign(condition.pixels.size(), static_cast<uint8_t>(200 * i));
    request.conditions.push_back(condition);
  }
  auto images = model->Draw(*parameters, request, {workers[0].get()}, nullptr);
  ASSERT_TRUE(expected.ok() && images.ok()) << expected.status() << images.status();
  for (int i = 0; i < 2; ++i) EXPECT_EQ((*expected)[i].pixels, (*images)[i].pixels) << i;

  for (const char* name : {"controlnet_cond_embedding.conv_out.weight",
                           "controlnet_mid_block.weight", "controlnet_down_blocks.0.weight"}) {
    for (float& x : parameters->at(name).span<float>()) x = 0.05f;
  }
  const auto one = model->Draw(*parameters, request, {workers[0].get()}, nullptr);
  std::swap(request.conditions[0], request.conditions[1]);
  const auto other = model->Draw(*parameters, request, {workers[0].get()}, nullptr);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE((*one)[0].pixels, (*expected)[0].pixels);
  EXPECT_NE((*one)[0].pixels, (*other)[0].pixels);
  request.conditions[1] = Image(32, 32);
  EXPECT_FALSE(model->Draw(*parameters, request, {workers[0].get()}, nullptr).ok());
}

TEST(TrainableControlNetTest, SavesAFolderThatLoadsTheSame) {
  const auto model = LoadControlNet(kTinySd);
  auto parameters = model->InitialParameters(TrainableModel::Start::kRandom, 3);
  ASSERT_TRUE(parameters.ok());
  parameters->at("controlnet_mid_block.bias").span<float>()[0] = 7;
  // Changes to the locked decoder's parameters are not written.
  const std::string folder = ::testing::TempDir() + "/saved_controlnet";
  ASSERT_TRUE(model->Save(folder, *parameters, StoredFormat::kFp32).ok());
  for (const char* file :
       {"unet/diffusion_pytorch_model.safetensors", "unet/config.json",
        "vae/diffusion_pytorch_model.safetensors", "text_encoder/model.safetensors"}) {
    EXPECT_EQ(*ReadFile(folder + "/" + file), *ReadFile(std::string(kTinySd) + "/" + file)) << file;
  }
  const auto again = LoadTrainableModel(folder, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE((*again)->wants_conditions());
  EXPECT_TRUE((*again)->has_weights());
  EXPECT_EQ((*again)->DescribeStart(TrainableModel::Start::kFolder, 0),
            "controlnet from " + folder + "/controlnet");
  const auto loaded = (*again)->InitialParameters(TrainableModel::Start::kFolder, 0);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), parameters->size());
  for (const auto& [name, tensor] : *parameters) {
    EXPECT_TRUE(SameBits(tensor, loaded->at(name))) << name;
  }
  EXPECT_FALSE((*again)->Save(folder, *loaded, StoredFormat::kFp32).ok()) << "over itself";
}

// The folder's adapters are merged into all parts: the locked encoder, the locked decoder, the copy
// and the saved weights.
TEST(TrainableControlNetTest, AdaptersAreMergedIntoAllParts) {
  LoadModelOptions adapted;
  adapted.lora.rank = 2;
  const auto trained = LoadStableDiffusion(kTinySd, adapted);
  ASSERT_TRUE(trained.ok()) << trained.status();
  auto weights = (*trained)->LoadDenoiser();
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (auto& [name, tensor] : *weights) {
    if (!absl::EndsWith(name, ".lora_B.weight")) continue;
    tensor = tensor.Clone();
    for (float& x : tensor.span<float>()) x = 0.1f;
  }
  const std::string folder = ::testing::TempDir() + "/adapted";
  ASSERT_TRUE((*trained)->Save(folder, *weights).ok());
  const auto plain = LoadStableDiffusion(folder, {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto merged = (*plain)->LoadDenoiser();
  ASSERT_TRUE(merged.ok()) << merged.status();
  const std::string adapted_name =
      "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q.weight";
  ASSERT_FALSE(SameBits(merged->at(adapted_name), weights->at(adapted_name)));

  const auto expect_merged = [&](const TrainableModel& model) {
    const int locked_encoder = kFirstTextEncoder + 1;
    EXPECT_TRUE(model.LoadAllFrozen().ok());
    const nn::ParameterSet& locked = *model.frozen_parameters()[locked_encoder];
    for (nn::ParameterId id : locked.ids()) {
      const std::string& name = locked.program().parameter(id).name;
      EXPECT_TRUE(SameBits(locked.weight(id).master(), merged->at(name))) << name;
    }
    const auto parameters = model.InitialParameters(TrainableModel::Start::kRandom, 3);
    ASSERT_TRUE(parameters.ok()) << parameters.status();
    EXPECT_TRUE(SameBits(parameters->at(adapted_name), merged->at(adapted_name))) << "the copy";
    for (const auto& [name, tensor] : *parameters) {
      if (!absl::StartsWith(name, kDecoderPrefix)) continue;
      EXPECT_TRUE(SameBits(tensor, merged->at(name.substr(std::strlen(kDecoderPrefix))))) << name;
    }
  };
  const auto model = LoadControlNet(folder);
  expect_merged(*model);
  const auto parameters = model->InitialParameters(TrainableModel::Start::kRandom, 3);
  const std::string saved = ::testing::TempDir() + "/saved_adapted";
  const absl::Status status = model->Save(saved, *parameters, StoredFormat::kFp32);
  ASSERT_TRUE(status.ok()) << status;
  expect_merged(*LoadControlNet(saved));
}

TEST(TrainableControlNetTest, AHintNetworkOfAnotherSizeIsNamed) {
  const std::string folder = ::testing::TempDir() + "/other_hint";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(kTinySd, folder, std::filesystem::copy_options::recursive);
  std::filesystem::create_directory(folder + "/controlnet");
  const auto unet_json = ReadFile(folder + "/unet/config.json");
  const auto json = ControlNetConfigOf(*unet_json, "unet", {16, 32, 96, 256});
  ASSERT_TRUE(json.ok() && WriteFileAtomically(folder + "/controlnet/config.json", *json).ok());
  LoadModelOptions options;
  options.kind = "controlnet";
  const std::string message(LoadTrainableModel(folder, options).status().message());
  EXPECT_NE(message.find("downscales by 8, but the VAE by 4"), std::string::npos) << message;
}

}  // namespace
}  // namespace dpipe::models
