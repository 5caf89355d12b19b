#include "models/trainable/load.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {

namespace {

using ::testing::HasSubstr;
constexpr char kTinySd[] = "data/tiny_sd";

// Makes a folder with only a model_index.json.
std::string FolderWithIndex(const std::string& index) {
  const std::string folder = ::testing::TempDir() + "/indexed";
  EXPECT_TRUE(MakeFolder(folder).ok());
  EXPECT_TRUE(WriteFileAtomically(folder + "/model_index.json", index).ok());
  return folder;
}

std::string ErrorOf(const std::string& folder, const LoadModelOptions& options = {}) {
  return std::string(LoadTrainableModel(folder, options).status().message());
}

TEST(LoadTrainableModelTest, RecognizesStableDiffusionByItsIndex) {
  const auto model = LoadTrainableModel(kTinySd, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->image_size(), 64);
  EXPECT_FALSE((*model)->wants_conditions());
  EXPECT_EQ((*model)->Describe(),
            "tiny_sd, 2.22 M trainable parameters in 48 layers, 64 x 64 pixels");
}

TEST(LoadTrainableModelTest, ErrorsNameTheFolderAndItsContent) {
  EXPECT_THAT(ErrorOf("/no/model"), HasSubstr("there is no model folder /no/model"));
  EXPECT_THAT(ErrorOf(FolderWithIndex("[1]")),
              HasSubstr("model_index.json: expected a JSON object {...}, found [1]"));
  EXPECT_THAT(ErrorOf(FolderWithIndex("{\"_class_name\": 3}")), HasSubstr("no string _class_name"));
  LoadModelOptions options;
  options.kind = "pixart";
  EXPECT_THAT(ErrorOf(kTinySd, options), HasSubstr("unknown kind of model 'pixart'; there are"));
}

// Holds with and without a kind named by the user.
TEST(LoadTrainableModelTest, UnsupportedClassesAreRefusedByName) {
  for (const std::string name :
       {"StableDiffusion3Img2ImgPipeline", "FluxFillPipeline", "FluxControlPipeline",
        "Flux2Pipeline", "WanPipeline", "QwenImagePipeline", "StableDiffusionInpaintPipeline",
        "StableDiffusionInstructPix2PixPipeline"}) {
    const std::string folder = FolderWithIndex("{\"_class_name\": \"" + name + "\"}");
    EXPECT_EQ(ErrorOf(folder),
              folder + "/model_index.json: a " + name +
                  " is not supported; supported are folders of StableDiffusionPipeline, "
                  "StableDiffusionXLPipeline, StableDiffusionControlNetPipeline, "
                  "StableDiffusion3Pipeline, FluxPipeline, "
                  "CascadedDiffusionPipeline");
    LoadModelOptions options;
    options.kind = "stable_diffusion";
    EXPECT_EQ(ErrorOf(folder, options),
              folder + "/model_index.json: a " + name +
                  " is not supported as stable_diffusion, which takes folders of "
                  "StableDiffusionPipeline, StableDiffusionControlNetPipeline");
    options.kind = "controlnet";
    EXPECT_THAT(ErrorOf(folder, options), HasSubstr("a " + name + " is not supported as"));
    options.kind = "cascade";
    EXPECT_THAT(ErrorOf(folder, options),
                HasSubstr("is not supported as cascade, which takes folders of "
                          "CascadedDiffusionPipeline"));
  }
}

TEST(LoadTrainableModelTest, DropoutIsForDrawingOnly) {
  const std::string folder = ::testing::TempDir() + "/dropout";
  std::filesystem::copy(kTinySd, folder, std::filesystem::copy_options::recursive);
  std::string config = *ReadFile(folder + "/unet/config.json");
  const size_t at = config.find("\"dropout\": 0.0");
  ASSERT_NE(at, config.npos);
  config.replace(at, 14, "\"dropout\": 0.1");
  std::filesystem::remove(folder + "/unet/config.json");
  ASSERT_TRUE(WriteFileAtomically(folder + "/unet/config.json", config).ok());
  EXPECT_EQ(ErrorOf(folder), folder +
                                 "/unet/config.json: 'dropout' is 0.1, but training with "
                                 "dropout is not supported: set it to 0 to train without");
}

TEST(LoadTrainableModelTest, OtherPathsAreDescribed) {
  const std::string folder = ::testing::TempDir() + "/alone";
  ASSERT_TRUE(MakeFolder(folder).ok());
  EXPECT_THAT(ErrorOf(folder), HasSubstr(folder + " has no model_index.json"));
  const std::string file = ::testing::TempDir() + "/all.safetensors";
  ASSERT_TRUE(WriteFileAtomically(file, "x").ok());
  EXPECT_THAT(ErrorOf(file), HasSubstr(file + " is a single file of weights"));
}

// Works before the model is loaded, so that fitting data can be found.
TEST(FindModelKindTest, TheUserOverridesTheFolder) {
  const std::string folder =
      FolderWithIndex("{\"_class_name\": \"StableDiffusionControlNetPipeline\"}");
  const auto own = FindModelKind(folder, "");
  const auto named = FindModelKind(folder, "stable_diffusion");
  ASSERT_TRUE(own.ok() && named.ok()) << own.status() << named.status();
  EXPECT_EQ((*own)->name, "controlnet");
  EXPECT_TRUE((*own)->wants_conditions);
  EXPECT_EQ((*named)->name, "stable_diffusion");
  EXPECT_FALSE((*named)->wants_conditions);
}

TEST(LoadTrainableModelTest, ZeroTerminalSnrIsKeptAndNeedsAFittingPrediction) {
  LoadModelOptions options;
  options.zero_terminal_snr = true;
  options.prediction_type = diffusion::PredictionType::kEpsilon;
  EXPECT_THAT(ErrorOf(kTinySd, options), HasSubstr("not epsilon"));
  options.prediction_type = diffusion::PredictionType::kV;
  const auto model = LoadTrainableModel(kTinySd, options);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto parameters = (*model)->InitialParameters(TrainableModel::Start::kRandom, 1);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  const std::string saved = ::testing::TempDir() + "/zero_snr";
  ASSERT_TRUE((*model)->Save(saved, *parameters, StoredFormat::kFp32).ok());
  const auto config = ReadFile(saved + "/scheduler/scheduler_config.json");
  ASSERT_TRUE(config.ok());
  EXPECT_THAT(*config, HasSubstr("\"rescale_betas_zero_snr\": true"));
  EXPECT_THAT(*config, HasSubstr("\"prediction_type\": \"v_prediction\""));
}

using ::testing::HasSubstr;

class FindDataTest : public ::testing::Test {
 protected:
  // The folders of the built-in data sets hold other files, which are not overwritten. The error
  // names the data set that was requested.
  FindDataTest() {
    for (const char* name : {"scenes", "scenes_with_outlines"}) {
      const std::string folder = absl::StrCat(workspace_.path(), "/out/data/", name);
      EXPECT_TRUE(MakeFolder(folder).ok());
      EXPECT_TRUE(WriteFileAtomically(folder + "/thesis.txt", "years of work").ok());
    }
    setenv("BUILD_WORKSPACE_DIRECTORY", workspace_.path().c_str(), /*overwrite=*/1);
  }
  ~FindDataTest() override { unsetenv("BUILD_WORKSPACE_DIRECTORY"); }

  std::string ModelOfClass(const std::string& class_name) {
    const std::string index = absl::StrCat(R"({"_class_name": ")", class_name, "\"}");
    EXPECT_TRUE(WriteFileAtomically(workspace_.File("model_index.json"), index).ok());
    return workspace_.path();
  }
  static std::string ErrorOf(const std::string& model_folder, const std::string& kind) {
    const auto found = FindDataFor(model_folder, kind, "", [](const std::string&) {});
    return std::string(found.status().message());
  }

  ScratchFolder workspace_;
};

TEST_F(FindDataTest, ModelsWithConditionsGetThem) {
  EXPECT_THAT(ErrorOf(ModelOfClass("StableDiffusionControlNetPipeline"), ""),
              HasSubstr("/scenes_with_outlines"));
  EXPECT_THAT(ErrorOf(ModelOfClass("StableDiffusionPipeline"), "controlnet"),
              HasSubstr("/scenes_with_outlines"));
  for (const char* kind : {"", "stable_diffusion"}) {
    const std::string error = ErrorOf(ModelOfClass("StableDiffusionPipeline"), kind);
    EXPECT_THAT(error, HasSubstr("/scenes"));
    EXPECT_THAT(error, ::testing::Not(HasSubstr("outlines")));
  }
}

TEST_F(FindDataTest, AModelOfNoKnownKindIsNamed) {
  EXPECT_THAT(ErrorOf(ModelOfClass("WanPipeline"), ""),
              HasSubstr("a WanPipeline is not supported"));
  EXPECT_THAT(ErrorOf("/no/model", ""), HasSubstr("there is no model folder /no/model"));
}

TEST_F(FindDataTest, TheUsersFolderIsUsed) {
  const auto found = FindDataFor("/no/model", "", "/my/pictures", [](const std::string&) {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, "/my/pictures");
}

}  // namespace

}  // namespace dpipe::models
