#include "tools/training/trained_model.h"

#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/diffusion/diffusion_objective.h"
#include "models/trainable/load.h"
#include "nlohmann/json.hpp"

namespace dpipe::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

void Silent(const std::string&) {}

class TrainedModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = models::LoadTrainableModel("data/tiny_sd", {});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = std::move(*model);
    folder_ =
        testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
  }
  models::NamedTensors RandomUNet(uint64_t seed) const {
    return *model_->InitialParameters(models::TrainableModel::Start::kRandom, seed);
  }
  absl::Status Save(const std::map<std::string, Tensor>& unet, int64_t steps) {
    TrainingRecord record;
    record.steps = steps;
    return SaveTrainedModel(*model_, unet, models::StoredFormat::kFp32, record, folder_);
  }

  std::unique_ptr<models::TrainableModel> model_;
  std::string folder_;
};

TEST_F(TrainedModelTest, IsReadBackWithTheSameWeights) {
  for (uint64_t seed : {1, 2}) {  // the second overwrites the first
    const auto unet = RandomUNet(seed);
    ASSERT_TRUE(Save(unet, 10 * seed).ok());
    EXPECT_FALSE(fs::exists(folder_ + ".partial"));
    const auto loaded = LoadTrainedModel(folder_, "", Silent);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const auto read = (*loaded)->pipeline().LoadDenoiser();
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->size(), unet.size());
    for (const auto& [name, tensor] : unet) {
      ASSERT_EQ(std::memcmp(tensor.raw_data(), read->at(name).raw_data(), tensor.size_bytes()), 0)
          << name;
    }
    const auto record = nlohmann::json::parse(ReadFile(folder_ + "/training.json").value());
    EXPECT_EQ(record["steps"], 10 * seed);
  }
}

TEST_F(TrainedModelTest, AUsersFolderIsLeftAlone) {
  ASSERT_TRUE(MakeFolder(folder_).ok());
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/thesis.txt", "years of work").ok());
  const absl::Status status = Save(RandomUNet(1), 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_NE(status.message().find(folder_), std::string::npos);
  EXPECT_EQ(ReadFile(folder_ + "/thesis.txt").value(), "years of work");
}

TEST_F(TrainedModelTest, WithoutWeightsTheCommandThatTrainsIsNamed) {
  ASSERT_TRUE(Save(RandomUNet(1), 1).ok());
  fs::remove(folder_ + "/unet/" + models::kDiffusersWeights);
  const auto loaded = LoadTrainedModel("", folder_, Silent);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().message().find("bazel run //tools:train"), std::string::npos)
      << loaded.status();
}

TEST_F(TrainedModelTest, PredictionTypeIsSavedWithTheModel) {
  models::LoadModelOptions options;
  options.prediction_type = diffusion::PredictionType::kV;
  auto model = models::LoadTrainableModel("data/tiny_sd", options);
  ASSERT_TRUE(model.ok()) << model.status();
  model_ = std::move(*model);
  ASSERT_TRUE(Save(RandomUNet(1), 1).ok());
  const auto loaded = LoadTrainedModel(folder_, "", Silent);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto& objective =
      dynamic_cast<const diffusion::DiffusionObjective&>((*loaded)->pipeline().objective());
  EXPECT_EQ(objective.schedule().options().prediction_type, diffusion::PredictionType::kV);
}

TEST_F(TrainedModelTest, TheModelThatIsTrainedIsNotReplaced) {
  ASSERT_TRUE(Save(RandomUNet(1), 1).ok());
  const std::string link = folder_ + "_link", inside = folder_ + "/models/mine";
  fs::remove(link);
  fs::create_directory_symlink(folder_, link);
  ASSERT_TRUE(MakeFolder(inside).ok());
  for (const std::string& model : {folder_, folder_ + "/", folder_ + "/vae/..", link, inside}) {
    const absl::Status status = CheckDoesNotReplaceModel(folder_, model);
    EXPECT_EQ(status.message(),
              absl::StrCat("will not save to ", folder_, ", which would replace ", model,
                           ", the model being trained: choose another --out"));
  }
  EXPECT_FALSE(CheckDoesNotReplaceModel(link, folder_).ok());
  for (const std::string& model : {std::string("data/tiny_sd"), folder_ + "_not_there_yet"}) {
    EXPECT_TRUE(CheckDoesNotReplaceModel(folder_, model).ok()) << model;
  }
  EXPECT_TRUE(CheckDoesNotReplaceModel(folder_ + "_not_there_yet", folder_).ok());
  EXPECT_TRUE(CheckDoesNotReplaceModel(inside, folder_).ok())
      << "it would replace nothing of the model";
}

// InstructPix2Pix is refused: its eight input channels have another meaning than a model's here.
TEST_F(TrainedModelTest, OtherClassesAreNamed) {
  ASSERT_TRUE(Save(RandomUNet(1), 1).ok());
  std::string said;
  const auto load_as = [&](const std::string& class_name) {
    const std::string path = folder_ + "/model_index.json";
    auto index = nlohmann::json::parse(ReadFile(path).value());
    index["_class_name"] = class_name;
    EXPECT_TRUE(WriteFileAtomically(path, index.dump()).ok());
    return LoadTrainedModel(folder_, "", [&said](const std::string& line) { said += line; });
  };
  EXPECT_TRUE(load_as("StableDiffusionPipeline").ok());
  EXPECT_EQ(said, "");
  EXPECT_EQ(load_as("StableDiffusionInstructPix2PixPipeline").status().message(),
            absl::StrCat(folder_,
                         "/model_index.json: a StableDiffusionInstructPix2PixPipeline is not "
                         "supported; supported are StableDiffusionPipeline, "
                         "StableDiffusionControlNetPipeline, StableDiffusionXLPipeline, "
                         "StableDiffusion3Pipeline, FluxPipeline"));
  EXPECT_TRUE(load_as("StableDiffusionControlNetPipeline").ok());
  EXPECT_THAT(said, HasSubstr(folder_ + " is sampled without its ControlNet"));
}

}  // namespace
}  // namespace dpipe::tools
