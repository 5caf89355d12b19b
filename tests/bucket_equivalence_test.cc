// Checks that steps of several image sizes, or of patches, run by one plan and give one device's
// losses and parameters, bit for bit. In pipelines, filling prepares a step of one size during a
// step of another.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/schedule/generators.h"
#include "data/scenes/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/schedule_plan.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kSteps = 12;
constexpr int kGlobalBatch = 4;
constexpr int kMicroBatchSize = 1;
constexpr int kFrozenQuantum = 2;

models::TrainingSetupOptions Options(DType dtype, bool with_conditions = false) {
  BuiltInDatasetOptions scenes;
  scenes.count = 48;
  scenes.max_aspect = 2;
  scenes.with_conditions = with_conditions;
  models::TrainingSetupOptions options;
  options.model_folder = "data/tiny_sd";
  options.data.folder =
      ::testing::TempDir() + (with_conditions ? "/scenes_with_conditions" : "/scenes");
  const absl::Status status = EnsureBuiltInDataset(options.data.folder, scenes);
  EXPECT_TRUE(status.ok()) << status;
  options.max_aspect = 2;
  // The workers have no cores of their own, because the comparison must not need them.
  options.num_devices = 1;
  options.global_batch = kGlobalBatch;
  options.compute_dtype = dtype;
  options.frozen_quantum = kFrozenQuantum;
  options.seed = 4;
  options.optimizer.learning_rate.peak = 1e-3f;
  return options;
}

using MakePlanFn = std::function<absl::StatusOr<Plan>(const nn::Model&)>;

absl::StatusOr<testlib::TrainingOutcome> Train(TrainingJob job, const MakePlanFn& make_plan,
                                               int steps_per_run = 0) {
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, make_plan(*job.model));
  const auto workers =
      StartWorkers(std::vector<std::shared_ptr<Device>>(plan.num_devices(), Device::Cpu()));
  job.workers.clear();
  for (const auto& worker : workers) job.workers.push_back(worker.get());
  return testlib::Train(job, plan, kSteps, steps_per_run);
}

MakePlanFn ByStrategy(const std::string& strategy, int num_devices, DType dtype) {
  return [=](const nn::Model& model) {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = request.num_stages = num_devices;
    request.global_batch = kGlobalBatch;
    request.micro_batch_size = kMicroBatchSize;
    return testlib::MakeTestPlan(
        testlib::SyntheticProfile(model, dtype, kFrozenQuantum, {1, 2, 4}, /*seed=*/3), request);
  };
}

// With skips that stay on their device, split backward passes and recomputed forward passes.
MakePlanFn BySchedule(const std::string& name, DType dtype) {
  return [=](const nn::Model& model) -> absl::StatusOr<Plan> {
    ScheduleRequest request;
    request.num_devices = 2;
    request.num_micro_batches = kGlobalBatch / kMicroBatchSize;
    DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(name, request));
    testlib::SchedulePlanOptions options;
    options.micro_batch_sizes = {kMicroBatchSize};
    options.recompute = true;
    options.frozen_quantum = kFrozenQuantum;
    return testlib::MakeLoweredPlan(model, dtype, schedule, options);
  };
}

void ExpectTheSameOfPipelines(const TrainingJob& job, DType dtype,
                              const testlib::TrainingOutcome& expected) {
  for (const char* strategy : {"1f1b", "diffusionpipe"}) {
    const auto actual = Train(job, ByStrategy(strategy, 2, dtype));
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    EXPECT_EQ(testlib::FirstDifference(expected, *actual), "") << strategy;
  }
}

class BucketEquivalenceTest : public ::testing::TestWithParam<DType> {};

TEST_P(BucketEquivalenceTest, PipelinesAreBitIdenticalToOneDevice) {
  const auto setup = models::TrainingSetup::Create(Options(GetParam()));
  ASSERT_TRUE(setup.ok()) << setup.status();
  // Every size has steps, and the size changes between them.
  std::map<std::pair<int, int>, int> steps_of_size;
  int changes = 0;
  for (int step = 0; step < kSteps; ++step) {
    const ImageSize size = (*setup)->loader().SizeOf(step);
    ++steps_of_size[{size.width, size.height}];
    changes += step > 0 && size.width != (*setup)->loader().SizeOf(step - 1).width;
  }
  EXPECT_EQ(steps_of_size.size(), (*setup)->loader().SizesInUse().size());
  EXPECT_GE(steps_of_size.size(), 4u);
  EXPECT_GE(changes, kSteps / 2);

  const auto expected = Train((*setup)->job(), ByStrategy("data_parallel", 1, GetParam()));
  ASSERT_TRUE(expected.ok()) << expected.status();
  ExpectTheSameOfPipelines((*setup)->job(), GetParam(), *expected);
  const auto wave = Train((*setup)->job(), BySchedule("wave", GetParam()));
  ASSERT_TRUE(wave.ok()) << wave.status();
  EXPECT_EQ(testlib::FirstDifference(*expected, *wave), "");
  const auto in_pieces =
      Train((*setup)->job(), ByStrategy("diffusionpipe", 2, GetParam()), /*steps_per_run=*/5);
  ASSERT_TRUE(in_pieces.ok()) << in_pieces.status();
  EXPECT_EQ(testlib::FirstDifference(*expected, *in_pieces), "");

  ASSERT_TRUE((*setup)->BuildCache((*setup)->loader().StepsToSeeAll()).ok());
  const auto cached = Train((*setup)->job(), ByStrategy("offline_cache", 2, GetParam()));
  ASSERT_TRUE(cached.ok()) << cached.status();
  EXPECT_EQ(testlib::FirstDifference(*expected, *cached), "");
}

// Each size has its own shapes and, unlike a bucket's, its own amount of work.
TEST_P(BucketEquivalenceTest, PatchesAreBitIdenticalToOneDeviceToo) {
  models::TrainingSetupOptions options = Options(GetParam());
  options.max_aspect = 1;
  options.patch_share = 0.7;
  options.data.random_flip = true;
  const auto setup = models::TrainingSetup::Create(options);
  ASSERT_TRUE(setup.ok()) << setup.status();
  std::map<int, int> steps_of_side;
  for (int step = 0; step < kSteps; ++step) ++steps_of_side[(*setup)->loader().SizeOf(step).width];
  EXPECT_EQ(steps_of_side.size(), 3u);
  const auto expected = Train((*setup)->job(), ByStrategy("data_parallel", 1, GetParam()));
  ASSERT_TRUE(expected.ok()) << expected.status();
  ExpectTheSameOfPipelines((*setup)->job(), GetParam(), *expected);
}

INSTANTIATE_TEST_SUITE_P(DTypes, BucketEquivalenceTest,
                         ::testing::Values(DType::kF32, DType::kBf16),
                         [](const ::testing::TestParamInfo<DType>& info) {
                           return std::string(DTypeName(info.param));
                         });

TEST(BucketKindsTest, ControlNetsAreBitIdenticalToOneDevice) {
  models::TrainingSetupOptions options = Options(DType::kF32, /*with_conditions=*/true);
  options.model.kind = "controlnet";
  const auto setup = models::TrainingSetup::Create(options);
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_GE((*setup)->loader().SizesInUse().size(), 4u);
  const auto expected = Train((*setup)->job(), ByStrategy("data_parallel", 1, DType::kF32));
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto actual = Train((*setup)->job(), ByStrategy("diffusionpipe", 2, DType::kF32));
  ASSERT_TRUE(actual.ok()) << actual.status();
  EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "");

  // Latents and contexts are cached, and the locked encoder is in the bubbles.
  ASSERT_TRUE((*setup)->BuildCache((*setup)->loader().StepsToSeeAll()).ok());
  const auto cached = Train((*setup)->CachedJob(), ByStrategy("diffusionpipe", 2, DType::kF32));
  ASSERT_TRUE(cached.ok()) << cached.status();
  EXPECT_EQ(testlib::FirstDifference(*expected, *cached), "");
}

TEST(BucketKindsTest, CascadesAreBitIdenticalToOneDevice) {
  for (bool self_conditioning : {false, true}) {
    models::TrainingSetupOptions options = Options(DType::kF32);
    options.model_folder = "data/tiny_cdm";
    options.model.self_conditioning = self_conditioning;
    options.self_conditioning_probability = 0;  // one plan
    options.frozen_quantum = 1;
    const auto setup = models::TrainingSetup::Create(options);
    ASSERT_TRUE(setup.ok()) << setup.status();
    EXPECT_GE((*setup)->loader().SizesInUse().size(), 4u);
    const auto expected = Train((*setup)->job(), ByStrategy("data_parallel", 1, DType::kF32));
    ASSERT_TRUE(expected.ok()) << expected.status();
    const auto actual = Train((*setup)->job(), ByStrategy("gpipe", 2, DType::kF32));
    ASSERT_TRUE(actual.ok()) << actual.status();
    EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "");
  }
}

TEST(BucketSetupTest, ThePlanIsForTheLargestSize) {
  const auto setup = models::TrainingSetup::Create(Options(DType::kF32));
  ASSERT_TRUE(setup.ok()) << setup.status();
  const TrainingJob& job = (*setup)->job();
  EXPECT_EQ(job.model, &(*setup)->model().model());
  EXPECT_EQ((*setup)->loader().SizeOf(job.profiled_step).width, 64);
  EXPECT_EQ((*setup)->loader().SizeOf(job.profiled_step).height, 64);
  EXPECT_EQ(job.sizes.model_of(job.profiled_step), 0);
  EXPECT_EQ(job.sizes.others.size() + 1, (*setup)->loader().SizesInUse().size());
  EXPECT_THAT(
      (*setup)->Describe(),
      AllOf(HasSubstr(absl::StrCat(", in ", (*setup)->loader().SizesInUse().size(), " sizes")),
            HasSubstr("\n          48 x 80 "), HasSubstr("\n          64 x 64 ")));
  const auto profile = ProfileJob(job, {1, 2}, nullptr, /*passes=*/1);
  EXPECT_TRUE(profile.ok()) << profile.status();
}

TEST(BucketSetupTest, ModelsOfAnotherShapeAreRefused) {
  auto setup = models::TrainingSetup::Create(Options(DType::kF32));
  ASSERT_TRUE(setup.ok()) << setup.status();
  models::TrainingSetupOptions options = Options(DType::kF32);
  options.model.lora.rank = 2;
  auto other = models::TrainingSetup::Create(options);
  ASSERT_TRUE(other.ok()) << other.status();
  TrainingJob job = (*setup)->job();
  const auto plan = ByStrategy("data_parallel", 1, DType::kF32)(*job.model);
  ASSERT_TRUE(plan.ok()) << plan.status();
  job.sizes.others[0] = (*other)->job().model;
  EXPECT_THAT(std::string(StartSession(job, *plan).status().message()),
              HasSubstr("the models differ: component unet"));
}

}  // namespace
}  // namespace dpipe
