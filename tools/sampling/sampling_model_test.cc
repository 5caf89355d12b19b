#include "tools/sampling/sampling_model.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/tensor/device_worker.h"
#include "data/folders/folder_dataset.h"
#include "data/images/image_encode.h"
#include "data/loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/trainable/load.h"

namespace dpipe::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string FreshFolder(const std::string& name) {
  const std::string folder = ::testing::TempDir() + "/" + name;
  fs::remove_all(folder);
  return folder;
}

// Returns a folder as training of this kind writes it, with random weights in the trained parts.
// Weights that start at zero, such as a ControlNet's last convolutions, are random too.
std::string Trained(const std::string& model_folder, const std::string& kind) {
  models::LoadModelOptions options;
  options.kind = kind;
  const auto model = models::LoadTrainableModel(model_folder, options);
  EXPECT_TRUE(model.ok()) << model.status();
  auto parameters = (*model)->InitialParameters(models::TrainableModel::Start::kRandom, 3);
  EXPECT_TRUE(parameters.ok()) << parameters.status();
  for (auto& [name, tensor] : *parameters) {
    if (!absl::StartsWith(name, "controlnet_")) continue;
    for (float& v : tensor.span<float>()) v += 0.05f;
  }
  const std::string folder = FreshFolder(kind);
  EXPECT_TRUE((*model)->Save(folder, *parameters, models::StoredFormat::kFp32).ok());
  return folder;
}

class SamplingModelTest : public ::testing::Test {
 protected:
  absl::StatusOr<SamplingModel> Load(const std::string& folder, bool with_control = false) {
    SamplingModelOptions options;
    options.with_control = with_control;
    said_.clear();
    return LoadSamplingModel(folder, options, [this](const std::string& line) { said_ += line; });
  }
  std::vector<Image> Draw(const SamplingModel& drawn, const std::vector<std::string>& prompts,
                          const std::vector<Image>& conditions = {}) {
    models::DrawRequest request;
    request.prompts = prompts;
    request.conditions = conditions;
    request.options.num_steps = 2;
    const auto workers = StartWorkers({Device::Cpu()});
    const auto images = drawn.model->Draw(drawn.parameters, request, {workers[0].get()}, nullptr);
    EXPECT_TRUE(images.ok()) << images.status();
    return images.ok() ? *images : std::vector<Image>();
  }
  std::string said_;
};

TEST_F(SamplingModelTest, AControlNetDrawsByAPicture) {
  const std::string folder = Trained("data/tiny_sd", "controlnet");
  const auto controlled = Load(folder, /*with_control=*/true);
  ASSERT_TRUE(controlled.ok()) << controlled.status();
  EXPECT_EQ(said_, "");
  EXPECT_NE(controlled->tokenizer, nullptr);
  const int size = controlled->model->image_size();
  const Image black(size, size);
  Image white = black;
  white.pixels.assign(white.pixels.size(), 255);
  const std::vector<std::string> prompts = {"a red circle", "a blue star"};
  const std::vector<Image> by_black = Draw(*controlled, prompts, {black, black});
  const std::vector<Image> by_white = Draw(*controlled, prompts, {white, white});
  ASSERT_EQ(by_black.size(), 2);
  ASSERT_EQ(by_white.size(), 2);
  EXPECT_NE(by_black[0].pixels, by_white[0].pixels);
  EXPECT_NE(by_black[0].pixels, by_black[1].pixels);

  // Without it, the same folder loads as the plain model.
  const auto plain = Load(folder);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(said_, HasSubstr("is sampled without its ControlNet; to use it: --control=IMAGE"));
  const auto original = Load("data/tiny_sd");
  ASSERT_TRUE(original.ok()) << original.status();
  EXPECT_EQ(Draw(*plain, {"a red circle"})[0].pixels, Draw(*original, {"a red circle"})[0].pixels);
}

TEST_F(SamplingModelTest, AFolderWithoutAControlNetSaysHowToTrainOne) {
  const auto drawn = Load("data/tiny_sd", /*with_control=*/true);
  EXPECT_EQ(drawn.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(drawn.status().message(),
            "--control: data/tiny_sd has no ControlNet "
            "(controlnet/diffusion_pytorch_model.safetensors); train one with: bazel run "
            "//tools:train -- --model=data/tiny_sd --model.kind=controlnet");
}

// Cascades can be trained, so they can be drawn with.
TEST_F(SamplingModelTest, ACascadeDraws) {
  const std::string folder = Trained("data/tiny_cdm", "cascade");
  const auto drawn = Load(folder);
  ASSERT_TRUE(drawn.ok()) << drawn.status();
  EXPECT_EQ(drawn->tokenizer, nullptr);
  EXPECT_EQ(Draw(*drawn, {"a red circle"}).size(), 1);
  SamplingModelOptions options;
  options.adapters_file = "a.safetensors";
  EXPECT_THAT(
      std::string(LoadSamplingModel(folder, options, [](const std::string&) {}).status().message()),
      HasSubstr("--lora=a.safetensors: " + folder +
                " is a cascade, which has no low-rank adapters"));
}

TEST_F(SamplingModelTest, OtherClassesAreRefusedAsInTraining) {
  const std::string folder = FreshFolder("wan");
  ASSERT_TRUE(MakeFolder(folder).ok());
  ASSERT_TRUE(
      WriteFileAtomically(folder + "/model_index.json", R"({"_class_name": "WanPipeline"})").ok());
  EXPECT_EQ(
      Load(folder).status().message(),
      absl::StrCat(folder,
                   "/model_index.json: a WanPipeline is not supported; supported are "
                   "folders of StableDiffusionPipeline, "
                   "StableDiffusionXLPipeline, StableDiffusionControlNetPipeline, "
                   "StableDiffusion3Pipeline, FluxPipeline, "
                   "CascadedDiffusionPipeline"));
  EXPECT_EQ(Load(folder).status(), models::LoadTrainableModel(folder, {}).status());
}

TEST_F(SamplingModelTest, WithoutWeightsTheCommandThatTrainsIsNamed) {
  const std::string folder = FreshFolder("no_weights");
  fs::copy("data/tiny_sd", folder, fs::copy_options::recursive);
  fs::remove(folder + "/unet/diffusion_pytorch_model.safetensors");
  EXPECT_THAT(
      std::string(Load(folder).status().message()),
      HasSubstr("has no trained U-Net (unet/diffusion_pytorch_model.safetensors); train one "
                "with: bazel run //tools:train"));
}

// A wide picture with a gradient, so that a different crop is noticed.
Image Wide() {
  Image image(150, 90);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      image.At(x, y)[0] = static_cast<uint8_t>(x);
      image.At(x, y)[1] = static_cast<uint8_t>(2 * y);
    }
  }
  return image;
}

TEST(ReadConditionPictureTest, EqualsTrainingsPreprocessing) {
  const std::string folder = FreshFolder("conditions");
  ASSERT_TRUE(MakeFolder(folder).ok());
  const auto png = EncodePng(Wide());
  ASSERT_TRUE(png.ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/a.png", *png).ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/a.cond.png", *png).ok());
  ASSERT_TRUE(WriteFileAtomically(folder + "/a.txt", "a scene").ok());
  DataLoaderOptions options;
  options.global_batch = 1;
  options.image_size = 64;
  options.with_conditions = true;
  const auto loader = DataLoader::Create(*FolderDataset::Open(folder), options);
  ASSERT_TRUE(loader.ok()) << loader.status();
  std::vector<float> trained(64 * 64 * 3);
  ASSERT_TRUE((*loader)->LoadConditions(0, {0, 1}, trained.data()).ok());
  const auto condition = ReadConditionPicture(folder + "/a.cond.png", 64);
  ASSERT_TRUE(condition.ok()) << condition.status();
  EXPECT_EQ(condition->width, 64);
  EXPECT_EQ(condition->height, 64);
  for (size_t i = 0; i < trained.size(); ++i) {
    ASSERT_EQ(condition->pixels[i] / 255.0f, trained[i]) << i;
  }
}

TEST(ReadConditionPictureTest, NamesFileThatIsNotAPicture) {
  EXPECT_THAT(std::string(ReadConditionPicture("/no/picture.png", 64).status().message()),
              HasSubstr("/no/picture.png"));
}

}  // namespace
}  // namespace dpipe::tools
