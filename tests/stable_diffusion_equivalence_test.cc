// Checks that with tiny_sd, the model of the main job, every strategy gives one device's losses and
// parameters. Trains 20 steps with real images, captions, noise and optimizer, in fp32 and bf16. A
// small SDXL trains 4 steps.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/schedule/generators.h"
#include "data/scenes/generator.h"
#include "gtest/gtest.h"
#include "models/lora/lora.h"
#include "models/sdxl/testing/sdxl_folder.h"
#include "models/trainable/load.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/schedule_plan.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

constexpr int kSteps = 20;
constexpr int kGlobalBatch = 4;
constexpr int kMicroBatchSize = 1;
constexpr int kFrozenQuantum = 2;

std::string DataFolder() {
  const std::string folder = ::testing::TempDir() + "/scenes";
  BuiltInDatasetOptions options;
  options.count = 48;
  const absl::Status status = EnsureBuiltInDataset(folder, options);
  EXPECT_TRUE(status.ok()) << status;
  return folder;
}

struct Trained {
  std::string folder = "data/tiny_sd";
  int num_steps = kSteps;
};

// Calls `make_plan` with the model.
absl::StatusOr<testlib::TrainingOutcome> TrainBy(
    const std::function<absl::StatusOr<Plan>(const nn::Model&)>& make_plan, int num_devices,
    DType dtype, bool from_cache = false, int lora_rank = 0, const Trained& trained = {}) {
  models::TrainingSetupOptions options;
  options.model.lora.rank = lora_rank;
  options.model_folder = trained.folder;
  options.data.folder = DataFolder();
  // The workers have no cores of their own, because the comparison must not need them.
  options.num_devices = 1;
  options.global_batch = kGlobalBatch;
  options.compute_dtype = dtype;
  options.frozen_quantum = kFrozenQuantum;
  options.seed = 4;
  options.data.random_flip = !from_cache;
  options.optimizer.learning_rate.peak = 1e-3f;
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options));
  if (from_cache) DPIPE_RETURN_IF_ERROR(setup->BuildCache(trained.num_steps).status());
  const auto devices = std::vector<std::shared_ptr<Device>>(num_devices, Device::Cpu());
  const auto workers = StartWorkers(devices);
  TrainingJob job = setup->job();
  job.workers.clear();
  for (const auto& worker : workers) job.workers.push_back(worker.get());
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, make_plan(setup->model().model()));
  return testlib::Train(job, plan, trained.num_steps);
}

absl::StatusOr<testlib::TrainingOutcome> Train(const std::string& strategy, int num_devices,
                                               DType dtype, const Trained& trained = {}) {
  const auto make_plan = [&](const nn::Model& model) {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = num_devices;
    request.global_batch = kGlobalBatch;
    request.micro_batch_size = kMicroBatchSize;
    request.num_stages = strategy == "data_parallel" || num_devices == 1 ? 1 : num_devices;
    const ModelProfile profile =
        testlib::SyntheticProfile(model, dtype, kFrozenQuantum, {1, 2, 4}, /*seed=*/3);
    return testlib::MakeTestPlan(profile, request);
  };
  return TrainBy(make_plan, num_devices, dtype, strategy == "offline_cache", /*lora_rank=*/0,
                 trained);
}

// On two devices, with random cuts.
absl::StatusOr<testlib::TrainingOutcome> TrainOnTwo(const std::string& schedule_name,
                                                    bool recompute, DType dtype) {
  ScheduleRequest request;
  request.num_devices = 2;
  request.num_micro_batches = kGlobalBatch / kMicroBatchSize;
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(schedule_name, request));
  testlib::SchedulePlanOptions options;
  options.micro_batch_sizes = {kMicroBatchSize};
  options.recompute = recompute;
  options.frozen_quantum = kFrozenQuantum;
  return TrainBy(
      [&](const nn::Model& model) {
        return testlib::MakeLoweredPlan(model, dtype, schedule, options);
      },
      2, dtype);
}

class StableDiffusionEquivalenceTest : public ::testing::TestWithParam<DType> {};

TEST_P(StableDiffusionEquivalenceTest, PipelinesAreBitIdenticalToOneDevice) {
  const auto expected = Train("data_parallel", 1, GetParam());
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const char* strategy : {"gpipe", "1f1b", "diffusionpipe"}) {
    const auto actual = Train(strategy, 2, GetParam());
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "") << strategy;
  }
  // Skips that stay on their device, split backward passes, recomputed forward passes.
  const bool fp32 = GetParam() == DType::kF32;
  const std::vector<std::string> schedules =
      fp32 ? std::vector<std::string>{"zb-v", "zb-h1"} : std::vector<std::string>{"wave"};
  for (const std::string& schedule : schedules) {
    const auto actual = TrainOnTwo(schedule, /*recompute=*/!fp32, GetParam());
    ASSERT_TRUE(actual.ok()) << schedule << ": " << actual.status();
    EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "") << schedule;
  }
  EXPECT_LT(expected->losses.back(), expected->losses.front()) << "it does not learn";
}

INSTANTIATE_TEST_SUITE_P(DTypes, StableDiffusionEquivalenceTest,
                         ::testing::Values(DType::kF32, DType::kBf16),
                         [](const ::testing::TestParamInfo<DType>& info) {
                           return std::string(DTypeName(info.param));
                         });

// Two text encoders, of which one has two outputs that are read, and conditions of the data.
TEST(SdxlEquivalenceTest, StrategiesAreBitIdenticalToOneDevice) {
  Trained sdxl;
  sdxl.folder = ::testing::TempDir() + "/sdxl";
  sdxl.num_steps = 4;
  models::WriteSdxlFolder(sdxl.folder);
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const auto expected = Train("data_parallel", 1, dtype, sdxl);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const char* strategy : {"gpipe", "1f1b", "diffusionpipe"}) {
      const auto actual = Train(strategy, 2, dtype, sdxl);
      ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
      EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "") << strategy;
    }
  }
}

// Makes a first stage of two devices that has nothing to train and receives no gradient.
absl::StatusOr<Plan> CutBeforeTheFirstAdapter(const nn::Model& model, bool one_device) {
  ScheduleRequest request;
  request.num_devices = one_device ? 1 : 2;
  request.num_micro_batches = kGlobalBatch / kMicroBatchSize;
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule,
                         MakeSchedule(one_device ? "single" : "1f1b", request));
  testlib::SchedulePlanOptions options;
  options.micro_batch_sizes = {kMicroBatchSize};
  options.frozen_quantum = kFrozenQuantum;
  const nn::Program& unet = model.backbone().program;
  for (options.seed = 1; options.seed < 200; ++options.seed) {
    DPIPE_ASSIGN_OR_RETURN(const Plan plan,
                           testlib::MakeLoweredPlan(model, DType::kF32, schedule, options));
    const int cut = static_cast<int>(plan.stages(0).layers().end());
    if (one_device || (cut > 1 && unet.GradientsAt(cut).empty())) return plan;
  }
  return absl::NotFoundError("no seed cuts there");
}

TEST(LoraEquivalenceTest, AdaptersAloneAreTrainedWhereverTheCutIs) {
  const auto train = [](const std::function<absl::StatusOr<Plan>(const nn::Model&)>& make_plan,
                        int num_devices) {
    return TrainBy(make_plan, num_devices, DType::kF32, /*from_cache=*/false, /*lora_rank=*/2);
  };
  const auto expected =
      train([](const nn::Model& model) { return CutBeforeTheFirstAdapter(model, true); }, 1);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto early =
      train([](const nn::Model& model) { return CutBeforeTheFirstAdapter(model, false); }, 2);
  ASSERT_TRUE(early.ok()) << early.status();
  EXPECT_EQ(testlib::FirstDifference(*expected, *early), "");
  // Only the adapters have moved from their initial values.
  models::LoadModelOptions load;
  load.lora.rank = 2;
  const auto model = models::LoadTrainableModel("data/tiny_sd", load);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto initial =
      (*model)->InitialParameters(models::TrainableModel::Start::kRandom, /*seed=*/4);
  ASSERT_TRUE(initial.ok()) << initial.status();
  ASSERT_EQ(initial->size(), expected->parameters.size());
  for (const auto& [name, tensor] : expected->parameters) {
    const Tensor& before = initial->at(name);
    const bool same = std::equal(tensor.data<float>(), tensor.data<float>() + tensor.num_elements(),
                                 before.data<float>());
    EXPECT_EQ(same, !models::IsLoraParameter(name)) << name;
  }
}

// Replicas, and two directions with one copy of the weights each.
TEST(StableDiffusionEquivalenceTest, CopiesOfTheWeightsAgreeToRounding) {
  const auto expected = Train("data_parallel", 1, DType::kF32);
  const auto replicas = Train("data_parallel", 2, DType::kF32);
  const auto directions = TrainOnTwo("chimera", /*recompute=*/false, DType::kF32);
  ASSERT_TRUE(expected.ok() && replicas.ok() && directions.ok())
      << expected.status() << replicas.status() << directions.status();
  EXPECT_LT(testlib::LargestRelativeDifference(*expected, *replicas), 1e-5);
  EXPECT_LT(testlib::LargestRelativeDifference(*expected, *directions), 1e-5);
}

}  // namespace
}  // namespace dpipe
