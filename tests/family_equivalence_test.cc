// Checks that small models of the large families give one device's losses and parameters by
// pipeline strategies, bit for bit: SDXL, Stable Diffusion 3 and FLUX.1, and adapters of them,
// trained with all text encoders and the VAE frozen. Also checks that every synchronous strategy
// gives one device's gradients of tiny_flux, and that sharding strategies give those of adapters
// of tiny_sd and tiny_flux and move as many bytes as their plans say.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baselines/registry.h"
#include "core/comm/in_process.h"
#include "core/schedule/generators.h"
#include "data/scenes/generator.h"
#include "gtest/gtest.h"
#include "models/latent/testing/family_check.h"
#include "models/lora/lora.h"
#include "models/sdxl/testing/sdxl_folder.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/forwarding_communicator.h"
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
  for (const char* strategy : {"zero1", "zero3"}) {
    const auto actual = train(strategy, 2);
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    EXPECT_LT(testlib::LargestRelativeDifference(*expected, *actual), testlib::kRoundingDifference)
        << strategy;
  }
  EXPECT_EQ(std::count_if(expected->parameters.begin(), expected->parameters.end(),
                          [](const auto& named) { return models::IsLoraParameter(named.first); }),
            2 * GetParam().num_adapted);
}

// The bytes of a rank's collectives for sharded stages.
struct Traffic {
  int64_t gathered = 0, reduced = 0;
};

class CountingCommunicator : public testlib::ForwardingCommunicator {
 public:
  CountingCommunicator(std::unique_ptr<Communicator> inner, Traffic* traffic)
      : ForwardingCommunicator(std::move(inner)), traffic_(*traffic) {}

  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    for (const Tensor& tensor : full) traffic_.gathered += tensor.size_bytes();
    return ForwardingCommunicator::StartAllGather(group, std::move(shards), std::move(full), what);
  }
  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    for (const Tensor& tensor : full) traffic_.reduced += tensor.size_bytes();
    return ForwardingCommunicator::StartReduceScatterSum(group, std::move(full), std::move(shards),
                                                         what);
  }

 private:
  Traffic& traffic_;
};

// The gradients of two steps, so that work for the next step is covered.
class SmallModel {
 public:
  static absl::StatusOr<std::unique_ptr<SmallModel>> Create(const std::string& folder, DType dtype,
                                                            int lora_rank = 0) {
    auto model = std::unique_ptr<SmallModel>(new SmallModel(dtype));
    models::TrainingSetupOptions options = Options(folder, dtype);
    options.model.lora.rank = lora_rank;
    DPIPE_ASSIGN_OR_RETURN(model->plain_, models::TrainingSetup::Create(options));
    DPIPE_ASSIGN_OR_RETURN(model->cached_, models::TrainingSetup::Create(options));
    DPIPE_RETURN_IF_ERROR(model->cached_->BuildCache(kGradientSteps).status());
    return model;
  }

  // Checks that rank 0 moves as many bytes as the plan says.
  absl::StatusOr<std::vector<testlib::StepGradients>> GradientsCountedBy(
      const std::string& strategy, Traffic* planned) {
    const auto workers = StartWorkers({Device::Cpu(), Device::Cpu()});
    TrainingJob job = plain_->job();
    job.workers.clear();
    for (const auto& worker : workers) job.workers.push_back(worker.get());
    DPIPE_ASSIGN_OR_RETURN(const Plan plan, ByStrategy(strategy, 2, dtype_)(*job.model));
    for (const Instruction& instruction : plan.devices(0).instructions()) {
      const bool gathers = instruction.kind() == Instruction::GATHER_PARAMS;
      const bool reduces = instruction.kind() == Instruction::REDUCE_GRADS;
      if (gathers) planned->gathered += instruction.bytes();
      if (reduces) planned->reduced += instruction.bytes();
    }
    std::vector<Traffic> counted(workers.size());
    job.connect = [&](const std::vector<std::shared_ptr<Device>>& devices, absl::Duration) {
      std::vector<std::unique_ptr<Communicator>> ranks;
      for (auto& rank : CreateInProcessCommunicators(static_cast<int>(devices.size()))) {
        ranks.push_back(
            std::make_unique<CountingCommunicator>(std::move(rank), &counted[ranks.size()]));
      }
      return absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>(std::move(ranks));
    };
    DPIPE_ASSIGN_OR_RETURN(auto gradients, testlib::GradientsOf(job, plan, kGradientSteps));
    EXPECT_EQ(counted[0].gathered, kGradientSteps * planned->gathered) << strategy;
    EXPECT_EQ(counted[0].reduced, kGradientSteps * planned->reduced) << strategy;
    return gradients;
  }

  // Bytes of all of the backbone's weights and of the trained ones.
  int64_t weight_bytes() const { return backbone().ParameterBytes(backbone().all_layers()); }
  int64_t trained_bytes() const {
    return 4 * backbone().TrainableParameterCount(backbone().all_layers());
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

  explicit SmallModel(DType dtype) : dtype_(dtype) {}
  const nn::Program& backbone() const { return plain_->model().model().backbone().program; }
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
  const auto flux = SmallModel::Create("data/tiny_flux", GetParam());
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

// zero1 gathers trained weights once per step. zero3 gathers all weights, also once: each of these
// models is one bucket, which the next pass always reads again.
TEST(ShardedAdaptersTest, ComputeTheGradientsOfOneDeviceAndMoveWhatIsPlanned) {
  for (const char* folder : {"data/tiny_sd", "data/tiny_flux"}) {
    SCOPED_TRACE(folder);
    const auto model = SmallModel::Create(folder, DType::kF32, /*lora_rank=*/2);
    ASSERT_TRUE(model.ok()) << model.status();
    const int64_t weights = (*model)->weight_bytes(), trained = (*model)->trained_bytes();
    ASSERT_LT(trained, weights / 5);
    bool sums = false;
    const auto expected = (*model)->GradientsBy("data_parallel", 1, &sums);
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (const std::string strategy : {"zero1", "zero3"}) {
      Traffic planned;
      const auto actual = (*model)->GradientsCountedBy(strategy, &planned);
      ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
      EXPECT_LT(testlib::LargestRelativeDifference(*expected, *actual), 1e-5) << strategy;
      EXPECT_EQ(planned.reduced, trained) << strategy;
      EXPECT_EQ(planned.gathered, strategy == "zero1" ? trained : weights);
    }
  }
}

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
    const auto sharded = train("zero1", 2);  // divides only trained weights, which are fp32
    ASSERT_TRUE(sharded.ok()) << sharded.status();
    EXPECT_LT(testlib::LargestRelativeDifference(*expected, *sharded),
              testlib::kRoundingDifference);
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
