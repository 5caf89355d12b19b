// Trains whole models, fills caches and draws images on GPUs of a fake driver, which runs our
// kernels emulated on the CPU. The host must not touch a GPU's memory; the test crashes if it does.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/train/held_out_loss.h"
#include "data/scenes/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/fake_gpus.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

using ::testing::IsEmpty;

constexpr int kDevices = 2;
constexpr int kBatch = 2;
constexpr int kSteps = 2;  // the second one's loss depends on the first one's update

struct Case {
  std::string name;
  std::string folder;
  std::string kind;      // of the model; empty: the folder's
  std::string strategy;  // "offline_cache" with a cache of all frozen outputs
  bool cached = false;
};

class GpuTrainingTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    BuiltInDatasetOptions scenes;
    scenes.count = 8;
    scenes.with_conditions = GetParam().kind == "controlnet";
    models::TrainingSetupOptions options;
    options.model_folder = GetParam().folder;
    options.model.kind = GetParam().kind;
    options.data.folder = ::testing::TempDir() + "/scenes_" + GetParam().name;
    ASSERT_TRUE(EnsureBuiltInDataset(options.data.folder, scenes).ok());
    options.num_devices = kDevices;
    options.global_batch = kBatch;
    options.seed = 11;
    // Parameters that start at zero have changed after the first step.
    options.optimizer.learning_rate.peak = 1e-3f;
    auto setup = models::TrainingSetup::Create(options);
    ASSERT_TRUE(setup.ok()) << setup.status();
    setup_ = *std::move(setup);
    driver_.HideMemory();
    gpus_ = StartWorkers(*cuda::CreateVirtualCudaDevices(&driver_, kDevices));
    cpus_ = StartWorkers(*Device::PartitionCpu(kDevices));
  }

  using Workers = std::vector<std::unique_ptr<DeviceWorker>>;
  static std::vector<DeviceWorker*> Pointers(const Workers& workers) {
    std::vector<DeviceWorker*> pointers;
    for (const auto& worker : workers) pointers.push_back(worker.get());
    return pointers;
  }

  // Trains with a cache that the same workers have filled.
  absl::StatusOr<std::vector<double>> Losses(const Workers& workers) {
    TrainingJob job = setup_->job();
    job.workers = Pointers(workers);
    job.connect = testlib::ConnectPeers;
    models::CachedInputs cache;
    std::unique_ptr<nn::Model> rest;
    if (GetParam().cached) {
      models::CacheRequest request;
      request.loader = &setup_->loader();
      request.num_steps = kSteps;
      request.profiled_step = job.profiled_step;
      request.frozen_quantum = job.frozen_quantum;
      DPIPE_ASSIGN_OR_RETURN(cache, setup_->model().MakeCachedInputs(
                                        request, setup_->inputs_options(), job.workers, nullptr));
      job.inputs = cache.provider.get();
      if (cache.make_rest != nullptr) {
        const int side = setup_->model().image_size();
        DPIPE_ASSIGN_OR_RETURN(nn::Model made, cache.make_rest({side, side}));
        rest = std::make_unique<nn::Model>(std::move(made));
        job.model = rest.get();
        job.frozen_parameters = cache.rest_parameters;
        job.load_frozen = nullptr;
      }
    }
    const auto profile = testlib::SyntheticProfile(*job.model, job.compute_dtype,
                                                   job.frozen_quantum, {1, 2}, /*seed=*/3);
    testlib::PlanRequest request;
    request.strategy = GetParam().strategy;
    request.num_devices = kDevices;
    request.global_batch = kBatch;
    request.num_micro_batches = 2;
    DPIPE_ASSIGN_OR_RETURN(const Plan plan, testlib::MakeTestPlan(profile, request));
    DPIPE_ASSIGN_OR_RETURN(const auto trained, testlib::Train(job, plan, kSteps));
    return trained.losses;
  }

  absl::StatusOr<std::vector<Image>> Draw(const Workers& workers) {
    const models::TrainableModel& model = setup_->model();
    models::DrawRequest request;
    request.prompts = {"a red circle", "a blue square"};
    request.options.num_steps = 2;
    request.options.batch = 1;
    for (int i = 0; model.wants_conditions() && i < kDevices; ++i) {
      request.conditions.emplace_back(model.image_size(), model.image_size());
    }
    DPIPE_ASSIGN_OR_RETURN(
        const models::NamedTensors parameters,
        model.InitialParameters(models::TrainableModel::Start::kRandom, /*seed=*/3));
    return model.Draw(parameters, request, Pointers(workers), nullptr);
  }

  absl::StatusOr<HeldOutLosses> LossesHeldOut(const Workers& workers) {
    DPIPE_RETURN_IF_ERROR(setup_->model().LoadAllFrozen());
    HeldOutLossOptions options;
    options.model = &setup_->model().model();
    options.frozen_parameters = setup_->model().frozen_parameters();
    options.inputs = {setup_->job().inputs};
    options.num_samples = kBatch;
    options.batch = 1;
    DPIPE_ASSIGN_OR_RETURN(const auto loss, HeldOutLoss::Create(options));
    DPIPE_ASSIGN_OR_RETURN(
        const models::NamedTensors parameters,
        setup_->model().InitialParameters(models::TrainableModel::Start::kRandom, /*seed=*/3));
    return loss->Evaluate(parameters, Pointers(workers));
  }

  cuda::FakeDriver driver_;
  std::unique_ptr<models::TrainingSetup> setup_;
  Workers gpus_, cpus_;
};

TEST_P(GpuTrainingTest, TrainsAsTheCpu) {
  const auto expected = Losses(cpus_);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto actual = Losses(gpus_);
  ASSERT_TRUE(actual.ok()) << actual.status();
  ASSERT_EQ(expected->size(), kSteps);
  ASSERT_EQ(actual->size(), kSteps);
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_NEAR((*actual)[step], (*expected)[step], 1e-4 * (*expected)[step]) << "step " << step;
  }
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

// Passes that do not use a cache.
class GpuPassesTest : public GpuTrainingTest {};

TEST_P(GpuPassesTest, DrawsAsTheCpu) {
  const auto expected = Draw(cpus_);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto actual = Draw(gpus_);
  ASSERT_TRUE(actual.ok()) << actual.status();
  ASSERT_EQ(actual->size(), expected->size());
  for (size_t i = 0; i < expected->size(); ++i) {
    const auto &a = (*actual)[i].pixels, &b = (*expected)[i].pixels;
    ASSERT_EQ(a.size(), b.size());
    for (size_t p = 0; p < a.size(); ++p) ASSERT_LE(std::abs(a[p] - b[p]), 1) << i << ", " << p;
  }
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

TEST_P(GpuPassesTest, HeldOutLossesAsOnTheCpu) {
  const auto expected = LossesHeldOut(cpus_);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto actual = LossesHeldOut(gpus_);
  ASSERT_TRUE(actual.ok()) << actual.status();
  EXPECT_GT(expected->mean, 0);
  EXPECT_NEAR(actual->mean, expected->mean, 1e-4 * expected->mean);
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

const Case kStableDiffusion = {"StableDiffusion", "data/tiny_sd", "", "1f1b"};
const Case kControlNet = {"ControlNet", "data/tiny_sd", "controlnet", "1f1b"};
const Case kCascade = {"Cascade", "data/tiny_cdm", "", "diffusionpipe"};

const auto kName = [](const auto& info) { return info.param.name; };

INSTANTIATE_TEST_SUITE_P(Models, GpuPassesTest,
                         ::testing::Values(kStableDiffusion, kControlNet, kCascade), kName);
INSTANTIATE_TEST_SUITE_P(
    Models, GpuTrainingTest,
    ::testing::Values(kStableDiffusion, kControlNet, kCascade,
                      Case{"StableDiffusionFromACache", "data/tiny_sd", "", "offline_cache", true},
                      Case{"ControlNetFromACache", "data/tiny_sd", "controlnet", "1f1b", true}),
    kName);

}  // namespace
}  // namespace dpipe
