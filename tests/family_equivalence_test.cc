// Checks that small models of the large families give one device's losses and parameters by
// pipeline strategies, bit for bit: SDXL, Stable Diffusion 3 and FLUX.1, and adapters of them,
// trained with all text encoders and the VAE frozen. Also checks that every synchronous strategy
// gives one device's gradients of tiny_flux.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/schedule/generators.h"
#include "data/scenes/generator.h"
#include "gtest/gtest.h"
#include "models/latent/testing/family_check.h"
#include "models/lora/lora.h"
#include "models/sdxl/testing/sdxl_folder.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/gradients.h"
#include "tests/testlib/schedule_plan.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

constexpr int kGlobalBatch = 4;
constexpr int kFrozenQuantum = 2;

using MakePlanFn = std::function<absl::StatusOr<Plan>(const nn::Model&)>;

struct Family {
  const char* name;
  void (*write)(const std::string& folder);
  int num_adapted;  // layers that adapters change by default
  int num_steps;
};
constexpr Family kFamilies[] = {
    {"sdxl", models::WriteSdxlFolder, 4 * 56, /*num_steps=*/4},
    {"sd3",
     [](const std::string& folder) {
       models::WriteSmallFolder("models/sd3/testdata/tiny", folder);
     },
     12 + 9, /*num_steps=*/12},
    {"flux",
     [](const std::string& folder) {
       models::WriteSmallFolder("models/flux/testdata/tiny", folder);
     },
     2 * 12 + 2 * 3, /*num_steps=*/12},
};

std::string FamilyName(const ::testing::TestParamInfo<Family>& info) { return info.param.name; }

models::TrainingSetupOptions Options(const std::string& model_folder, DType dtype) {
  static const std::string* const data = [] {
    auto* folder = new std::string(::testing::TempDir() + "/scenes");
    BuiltInDatasetOptions options;
    options.count = 48;
    const absl::Status status = EnsureBuiltInDataset(*folder, options);
    EXPECT_TRUE(status.ok()) << status;
    return folder;
  }();
  models::TrainingSetupOptions options;
  options.model_folder = model_folder;
  options.data.folder = *data;
  // The workers have no cores of their own, because the comparison must not need them.
  options.num_devices = 1;
  options.global_batch = kGlobalBatch;
  options.compute_dtype = dtype;
  options.frozen_quantum = kFrozenQuantum;
  options.seed = 4;
  options.optimizer.learning_rate.peak = 1e-3f;
  return options;
}

absl::StatusOr<testlib::TrainingOutcome> TrainBy(const Family& family, const MakePlanFn& make_plan,
                                                 int num_devices, DType dtype,
                                                 const nn::LoraSpec& lora = {},
                                                 bool from_cache = false,
                                                 ops::WeightStorage storage = {}) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/", family.name);
  family.write(folder);
  models::TrainingSetupOptions options = Options(folder, dtype);
  options.model.lora = lora;
  options.model.base_storage = options.model.frozen_storage = storage;
  options.weights = models::TrainingSetupOptions::Weights::kFolder;
  options.data.random_flip = !from_cache;
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options));
  if (from_cache) DPIPE_RETURN_IF_ERROR(setup->BuildCache(family.num_steps).status());
  const auto workers =
      StartWorkers(std::vector<std::shared_ptr<Device>>(num_devices, Device::Cpu()));
  TrainingJob job = setup->job();
  job.workers.clear();
  for (const auto& worker : workers) job.workers.push_back(worker.get());
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, make_plan(setup->model().model()));
  return testlib::Train(job, plan, family.num_steps);
}

// On as many stages as devices if it is a pipeline.
MakePlanFn ByStrategy(const std::string& strategy, int num_devices, DType dtype) {
  return [=](const nn::Model& model) {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = num_devices;
    const bool is_pipeline = FindStrategy(strategy)->partitioner() != "none";
    request.num_stages = is_pipeline ? num_devices : 1;
    request.global_batch = kGlobalBatch;
    request.micro_batch_size = 1;
    return testlib::MakeTestPlan(
        testlib::SyntheticProfile(model, dtype, kFrozenQuantum, {1, 2, 4}, /*seed=*/3), request);
  };
}

MakePlanFn BySchedule(const std::string& name, bool recompute, DType dtype) {
  return [=](const nn::Model& model) -> absl::StatusOr<Plan> {
    ScheduleRequest request;
    request.num_devices = 2;
    request.num_micro_batches = kGlobalBatch;
    DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(name, request));
    testlib::SchedulePlanOptions options;
    options.micro_batch_sizes = {1};
    options.recompute = recompute;
    options.frozen_quantum = kFrozenQuantum;
    return testlib::MakeLoweredPlan(model, dtype, schedule, options);
  };
}

class FamilyEquivalenceTest : public ::testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Families, FamilyEquivalenceTest, ::testing::ValuesIn(kFamilies),
                         FamilyName);

TEST_P(FamilyEquivalenceTest, PipelinesAreBitIdenticalToOneDevice) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const auto train = [&](const MakePlanFn& make_plan, int num_devices) {
      return TrainBy(GetParam(), make_plan, num_devices, dtype);
    };
    const auto expected = train(ByStrategy("data_parallel", 1, dtype), 1);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const char* strategy : {"gpipe", "1f1b", "diffusionpipe"}) {
      const auto actual = train(ByStrategy(strategy, 2, dtype), 2);
      ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
      EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "")
          << strategy << ", " << DTypeName(dtype);
    }
    // Split backward passes, recomputed forward passes.
    for (const bool recompute : {false, true}) {
      const char* schedule = recompute ? "wave" : "zb-v";
      const auto actual = train(BySchedule(schedule, recompute, dtype), 2);
      ASSERT_TRUE(actual.ok()) << schedule << ": " << actual.status();
      EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "")
          << schedule << ", " << DTypeName(dtype);
    }
    EXPECT_LT(expected->losses.back(), expected->losses.front()) << "it does not learn";
  }
}

TEST_P(FamilyEquivalenceTest, CachedEmbeddingsAndLatentsAreTheSame) {
  const auto train = [](const char* strategy, int num_devices) {
    return TrainBy(GetParam(), ByStrategy(strategy, num_devices, DType::kF32), num_devices,
                   DType::kF32, {}, /*from_cache=*/true);
  };
  const auto cached = train("offline_cache", 1);
  const auto on_two = train("offline_cache", 2);
  ASSERT_TRUE(cached.ok() && on_two.ok()) << cached.status() << on_two.status();
  EXPECT_EQ(testlib::FirstDifference(*cached, *on_two), "");
}

// The first layers, up to the first attention, then have no gradient.
TEST_P(FamilyEquivalenceTest, AdaptersAloneAreTrained) {
  const auto train = [](const char* strategy, int num_devices) {
    return TrainBy(GetParam(), ByStrategy(strategy, num_devices, DType::kF32), num_devices,
                   DType::kF32, /*lora=*/{2, 1, {}});
  };
  const auto expected = train("data_parallel", 1);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const char* strategy : {"1f1b", "diffusionpipe"}) {
    const auto actual = train(strategy, 2);
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "") << strategy;
  }
  EXPECT_EQ(std::count_if(expected->parameters.begin(), expected->parameters.end(),
                          [](const auto& named) { return models::IsLoraParameter(named.first); }),
            2 * GetParam().num_adapted);
}

// The gradients of two steps, so that work for the next step is covered.
class TinyFlux {
 public:
  static absl::StatusOr<std::unique_ptr<TinyFlux>> Create(DType dtype) {
    auto flux = std::unique_ptr<TinyFlux>(new TinyFlux(dtype));
    const models::TrainingSetupOptions options = Options("data/tiny_flux", dtype);
    DPIPE_ASSIGN_OR_RETURN(flux->plain_, models::TrainingSetup::Create(options));
    DPIPE_ASSIGN_OR_RETURN(flux->cached_, models::TrainingSetup::Create(options));
    DPIPE_RETURN_IF_ERROR(flux->cached_->BuildCache(kGradientSteps).status());
    return flux;
  }

  absl::StatusOr<std::vector<testlib::StepGradients>> GradientsBy(const std::string& strategy,
                                                                  int num_devices, bool* sums) {
    const bool from_cache = FindStrategy(strategy)->frozen() == "cached";
    const auto workers =
        StartWorkers(std::vector<std::shared_ptr<Device>>(num_devices, Device::Cpu()));
    TrainingJob job = from_cache ? cached_->CachedJob() : plain_->job();
    job.workers.clear();
    for (const auto& worker : workers) job.workers.push_back(worker.get());
    DPIPE_ASSIGN_OR_RETURN(const Plan plan, ByStrategy(strategy, num_devices, dtype_)(*job.model));
    *sums = SumsGradients(plan);
    return testlib::GradientsOf(job, plan, kGradientSteps);
  }

 private:
  static constexpr int kGradientSteps = 2;

  explicit TinyFlux(DType dtype) : dtype_(dtype) {}
  static bool SumsGradients(const Plan& plan) {
    for (const DeviceProgram& device : plan.devices()) {
      for (const Instruction& instruction : device.instructions()) {
        if (instruction.kind() == Instruction::REDUCE_GRADS) return true;
      }
    }
    return false;
  }

  const DType dtype_;
  std::unique_ptr<models::TrainingSetup> plain_, cached_;
};

class TinyFluxTest : public ::testing::TestWithParam<DType> {};

TEST_P(TinyFluxTest, EveryStrategyComputesTheGradientsOfOneDevice) {
  const auto flux = TinyFlux::Create(GetParam());
  ASSERT_TRUE(flux.ok()) << flux.status();
  bool sums = false;
  const auto expected = (*flux)->GradientsBy("data_parallel", 1, &sums);
  ASSERT_TRUE(expected.ok()) << expected.status();
  int num_identical = 0;
  for (const std::string& strategy : ExactStrategyNames()) {
    const auto actual = (*flux)->GradientsBy(strategy, 2, &sums);
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    if (sums) {
      EXPECT_LT(testlib::LargestRelativeDifference(*expected, *actual), 1e-5) << strategy;
    } else {
      EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "") << strategy;
      ++num_identical;
    }
  }
  EXPECT_GE(num_identical, 8);
}

INSTANTIATE_TEST_SUITE_P(DTypes, TinyFluxTest, ::testing::Values(DType::kF32, DType::kBf16),
                         [](const ::testing::TestParamInfo<DType>& info) {
                           return std::string(DTypeName(info.param));
                         });

TEST_P(FamilyEquivalenceTest, AdaptersOfWeightsInOtherTypes) {
  std::vector<double> last_losses;
  for (const auto storage :
       {ops::WeightStorage::kFp32, ops::WeightStorage::kBf16, ops::WeightStorage::kInt8}) {
    SCOPED_TRACE(std::string(ops::WeightStorageName(storage)));
    const auto train = [&](const char* strategy, int num_devices) {
      return TrainBy(GetParam(), ByStrategy(strategy, num_devices, DType::kF32), num_devices,
                     DType::kF32, /*lora=*/{2, 1, {}}, /*from_cache=*/false, storage);
    };
    const auto expected = train("data_parallel", 1);
    const auto on_two = train("diffusionpipe", 2);
    ASSERT_TRUE(expected.ok() && on_two.ok()) << expected.status() << on_two.status();
    EXPECT_EQ(testlib::FirstDifference(*expected, *on_two), "");
    last_losses.push_back(expected->losses.back());
    if (storage == ops::WeightStorage::kFp32) continue;
    const auto divided = train("zero3", 2);
    EXPECT_EQ(divided.status().code(), absl::StatusCode::kInvalidArgument) << divided.status();
  }
  EXPECT_NEAR(last_losses[1] / last_losses[0], 1, 0.01);
  EXPECT_NEAR(last_losses[2] / last_losses[0], 1, 0.01);
  EXPECT_NE(last_losses[1], last_losses[0]);
  EXPECT_NE(last_losses[2], last_losses[1]);
}

}  // namespace
}  // namespace dpipe
