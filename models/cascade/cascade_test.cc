#include "models/cascade/cascade.h"

#include <cstring>
#include <string>

#include "core/nn/model.h"
#include "data/scenes/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/cascade/class_labels.h"
#include "models/trainable/load.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

constexpr char kTinyCdm[] = "data/tiny_cdm";

std::unique_ptr<TrainableModel> LoadTiny(const LoadModelOptions& options = {}) {
  auto model = LoadTrainableModel(kTinyCdm, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()) == 0;
}

TEST(CascadeTest, IsRecognizedByItsIndex) {
  const auto model = LoadTiny();
  EXPECT_EQ(model->image_size(), 32);
  EXPECT_EQ(model->model().backbones(), (std::vector<int>{kBase, kSuperResolution}));
  EXPECT_THAT(model->Describe(), HasSubstr("tiny_cdm, 1.16 M trainable parameters in "));
  EXPECT_THAT(model->Describe(), HasSubstr("(super_resolution, 32 x 32 pixels)"));
}

TEST(CascadeTest, FullSizeStandInsCanBeLoaded) {
  for (const char* name : {"cdm_lsun", "cdm_imagenet"}) {
    const auto model = LoadTrainableModel(std::string("data/models/") + name, {});
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_EQ((*model)->image_size(), 256);
    EXPECT_EQ((*model)->InitialParameters(TrainableModel::Start::kFolder, 1).status().code(),
              absl::StatusCode::kNotFound);
  }
}

TEST(CascadeTest, FullSizeClassesAreNumbersAndBuiltInNames) {
  const auto labels = ClassLabels::Read("data/models/cdm_imagenet/classes.txt", 1000);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_EQ(labels->names()[*labels->LabelOf("a large blue star on a gray background")],
            "blue star");
  for (const char* number : {"0", "29", "30", "999"}) {
    const auto label = labels->LabelOf(number);
    ASSERT_TRUE(label.ok()) << label.status();
    EXPECT_EQ(std::to_string(*label), number);
  }
}

TEST(CascadeTest, SavedFoldersLoadAgain) {
  const auto model = LoadTiny();
  const auto parameters = model->InitialParameters(TrainableModel::Start::kRandom, 5);
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  const std::string folder = ::testing::TempDir() + "/saved_cascade";
  ASSERT_TRUE(model->Save(folder, *parameters, StoredFormat::kFp32).ok());
  EXPECT_THAT(std::string(model->Save(kTinyCdm, *parameters, StoredFormat::kFp32).message()),
              HasSubstr("refusing to overwrite"));
  const auto again = LoadTrainableModel(folder, {});
  ASSERT_TRUE(again.ok()) << again.status();
  const auto loaded = (*again)->InitialParameters(TrainableModel::Start::kFolder, 0);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->size(), parameters->size());
  EXPECT_TRUE((*again)->has_weights());
  EXPECT_FALSE(model->has_weights());
  EXPECT_EQ((*again)->DescribeStart(TrainableModel::Start::kFolder, 0),
            "base and super_resolution from " + folder);
  EXPECT_EQ((*again)->DescribeStart(TrainableModel::Start::kRandom, 3),
            "base and super_resolution random (seed 3)");
  for (const auto& [name, tensor] : *parameters) {
    EXPECT_TRUE(SameBits(tensor, loaded->at(name))) << name;
  }
  // With its own estimate as an input: the same weights, and zeros for the new channels.
  LoadModelOptions options;
  options.self_conditioning = true;
  const auto wide = LoadTrainableModel(folder, options);
  ASSERT_TRUE(wide.ok()) << wide.status();
  const auto widened = (*wide)->InitialParameters(TrainableModel::Start::kFolder, 0);
  ASSERT_TRUE(widened.ok()) << widened.status();
  const Tensor before = parameters->at("base.conv_in.weight");
  const Tensor after = widened->at("base.conv_in.weight");
  ASSERT_EQ(after.shape(), (Shape{before.dim(0), 6, 3, 3}));
  for (int64_t o = 0; o < before.dim(0); ++o) {
    for (int64_t i = 0; i < 54; ++i) {
      EXPECT_EQ(after.data<float>()[o * 54 + i], i < 27 ? before.data<float>()[o * 27 + i] : 0);
    }
  }
  const std::string wide_folder = ::testing::TempDir() + "/saved_wide_cascade";
  ASSERT_TRUE((*wide)->Save(wide_folder, *widened, StoredFormat::kFp32).ok());
  const auto still = LoadTrainableModel(wide_folder, {});
  ASSERT_TRUE(still.ok()) << still.status();
  EXPECT_FALSE((*still)->model().component(kBase).self_conditioning.input.empty());
}

// Inputs depend on the sample, not on the caller, and the small picture is the large one's mean.
TEST(CascadeTest, Inputs) {
  const auto model = LoadTiny();
  const std::string folder = ::testing::TempDir() + "/scenes";
  BuiltInDatasetOptions scenes;
  scenes.count = 16;
  ASSERT_TRUE(EnsureBuiltInDataset(folder, scenes).ok());
  auto samples = FolderDataset::Open(folder);
  ASSERT_TRUE(samples.ok()) << samples.status();
  DataLoaderOptions loading;
  loading.global_batch = 8;
  loading.image_size = 32;
  const auto loader = DataLoader::Create(*std::move(samples), loading);
  ASSERT_TRUE(loader.ok()) << loader.status();
  InputsOptions options;
  options.seed = 3;
  options.caption_drop = 0.5;
  const auto inputs = model->MakeInputs(loader->get(), options);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  const auto cpu = Device::Cpu();
  for (int c : {kBase, kSuperResolution}) {
    const nn::Component& component = model->model().component(c);
    for (ValueId id : component.program.inputs()) {
      const std::string& name = component.program.value(id).name;
      const auto all = (*inputs)->Load(component.name, name, 2, {0, 8}, cpu);
      ASSERT_TRUE(all.ok()) << name << ": " << all.status();
      EXPECT_EQ(all->shape(), component.program.BatchShape(id, 8)) << name;
      const auto some = (*inputs)->Load(component.name, name, 2, {3, 5}, cpu);
      EXPECT_TRUE(SameBits(all->Slice(3, 5), *some)) << name;
    }
  }
  const Tensor large = *(*inputs)->Load("super_resolution", "pixels", 0, {0, 2}, cpu);
  const Tensor small = *(*inputs)->Load("super_resolution", "low_resolution", 0, {0, 2}, cpu);
  EXPECT_TRUE(SameBits(small, *(*inputs)->Load("base", "pixels", 0, {0, 2}, cpu)));
  const float* x = large.data<float>();
  EXPECT_NEAR(small.data<float>()[0], (x[0] + x[3] + x[96] + x[99]) / 4, 1e-6);
  // The models' draws are independent.
  const Tensor base_noise = *(*inputs)->Load("base", "noise", 0, {0, 1}, cpu);
  const Tensor low_noise = *(*inputs)->Load("super_resolution", "low_noise", 0, {0, 1}, cpu);
  const Tensor noise = *(*inputs)->Load("super_resolution", "noise", 0, {0, 1}, cpu);
  EXPECT_NE(base_noise.data<float>()[0], low_noise.data<float>()[0]);
  EXPECT_NE(base_noise.data<float>()[0], noise.data<float>()[0]);
  EXPECT_NE(low_noise.data<float>()[0], noise.data<float>()[0]);
  // Half of the labels are dropped.
  int dropped = 0;
  for (int step = 0; step < 16; ++step) {
    const Tensor labels = *(*inputs)->Load("base", "labels", step, {0, 8}, cpu);
    for (int32_t label : labels.span<int32_t>()) dropped += label == 40;
  }
  EXPECT_NEAR(dropped, 64, 25);  // four standard deviations of 128 fair coins are 23
  EXPECT_FALSE((*inputs)->Load("base", "context", 0, {0, 1}, cpu).ok());
}

TEST(CascadeTest, ModelsOfOtherSizesHaveTheSameStructure) {
  for (bool self_conditioning : {false, true}) {
    LoadModelOptions options;
    options.self_conditioning = self_conditioning;
    const auto model = LoadTiny(options);
    EXPECT_EQ(model->size_multiple(), 4) << "2 between the parts, 2 of the base's U-Net";
    const auto wide = model->MakeModel({40, 24});
    ASSERT_TRUE(wide.ok()) << wide.status();
    const absl::Status same = nn::CheckSameStructure(model->model(), *wide);
    EXPECT_TRUE(same.ok()) << same;
    const auto shape_of = [&](int component, const char* input) {
      const nn::Program& program = wide->component(component).program;
      return program.value(program.InputNamed(input)).type.shape;
    };
    EXPECT_EQ(shape_of(kBase, "pixels"), Shape({12, 20, 3}));
    EXPECT_EQ(shape_of(kSuperResolution, "pixels"), Shape({24, 40, 3}));
    EXPECT_EQ(shape_of(kSuperResolution, "low_resolution"), Shape({12, 20, 3}));
    EXPECT_THAT(std::string(model->MakeModel({40, 26}).status().message()),
                HasSubstr("pictures of 40 x 26 pixels: both sides must be multiples of 4"));
  }
}

TEST(CascadeTest, DrawsBySeedAndPrompt) {
  const auto model = LoadTiny();
  const auto parameters = model->InitialParameters(TrainableModel::Start::kRandom, 5);
  const auto workers = StartWorkers({Device::Cpu(), Device::Cpu()});
  const std::vector<DeviceWorker*> both = {workers[0].get(), workers[1].get()};
  DrawRequest request;
  request.prompts = {"a red circle", "a blue star", "a red circle"};
  request.options.num_steps = 2;
  request.options.batch = 2;
  const auto images = model->Draw(*parameters, request, both, nullptr);
  ASSERT_TRUE(images.ok()) << images.status();
  ASSERT_EQ(images->size(), 3);
  EXPECT_EQ((*images)[0].width, 32);
  EXPECT_NE((*images)[0].pixels, (*images)[2].pixels) << "depends on the index";
  request.options.batch = 3;
  const auto again = model->Draw(*parameters, request, {both[0]}, nullptr);
  ASSERT_TRUE(again.ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ((*images)[i].pixels, (*again)[i].pixels) << i;
  request.prompts = {"a blue star"};
  const auto other = model->Draw(*parameters, request, {both[0]}, nullptr);
  EXPECT_NE((*images)[0].pixels, (*other)[0].pixels) << "depends on the class";
  request.prompts = {"nothing of the kind"};
  EXPECT_THAT(std::string(model->Draw(*parameters, request, {both[0]}, nullptr).status().message()),
              HasSubstr("contains none of the 40 class names"));
}

}  // namespace
}  // namespace dpipe::models
