// Checks that every strategy of the registry, on 2 and on 4 ranks, with and without recomputation,
// computes the gradients of one device. They must be bit-identical if there is one copy of the
// weights, and agree to rounding if gradients are summed over ranks. All ranks that hold a gradient
// must have the same bits. Strategies that cannot be planned must be refused with the reason listed
// here.
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "baselines/registry.h"
#include "core/schedule/memory/memory.h"
#include "gtest/gtest.h"
#include "tests/testlib/gradients.h"
#include "tests/testlib/toy_model.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

using testlib::StepGradients;

constexpr int kSteps = 4;
constexpr int kGlobalBatch = 16;
constexpr int kMicroBatchSize = 2;

// Has enough layers for two stages on each of four devices.
class ToyJob {
 public:
  ToyJob(int num_devices, bool cached)
      : model_(testlib::MakeToyModel(Options())),
        parameters_(testlib::MakeToyParameters(model_, /*seed=*/5)),
        inputs_(&model_, /*seed=*/9, DType::kF32),
        cached_inputs_(&model_, &parameters_, /*seed=*/9, DType::kF32),
        profile_(testlib::SyntheticProfile(model_, DType::kF32, /*frozen_quantum=*/1, {1, 2, 4, 8},
                                           /*seed=*/3)) {
    workers_ = StartWorkers(std::vector<std::shared_ptr<Device>>(num_devices, Device::Cpu()));
    job_.model = &model_;
    for (auto& worker : workers_) job_.workers.push_back(worker.get());
    job_.inputs = cached ? static_cast<InputProvider*>(&cached_inputs_) : &inputs_;
    job_.frozen_parameters = parameters_.frozen_pointers;
    job_.backbone_parameters = nn::SourceOf(parameters_.backbone);
  }

  // A frozen layer takes this much memory per sample while it runs.
  void SetFrozenWorkspace(int64_t bytes) {
    for (ComponentProfile& component : *profile_.mutable_components()) {
      if (component.is_backbone()) continue;
      for (LayerProfile& layer : *component.mutable_layers()) {
        layer.set_workspace_bytes_per_sample(bytes);
      }
    }
  }
  absl::StatusOr<Plan> MakePlan(const std::string& strategy, int num_stages,
                                int64_t memory_bytes = 0) const {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = static_cast<int>(workers_.size());
    request.global_batch = kGlobalBatch;
    request.micro_batch_size = kMicroBatchSize;
    request.num_stages = num_stages;
    request.memory_bytes = memory_bytes;
    return testlib::MakeTestPlan(profile_, request);
  }
  const TrainingJob& job() const { return job_; }

 private:
  static testlib::ToyModelOptions Options() {
    testlib::ToyModelOptions options;
    options.u_shaped = true;
    options.frozen_skip = true;
    return options;
  }

  nn::Model model_;
  testlib::ToyParameters parameters_;
  testlib::ToyInputs inputs_;
  testlib::CachedToyInputs cached_inputs_;
  ModelProfile profile_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  TrainingJob job_;
};

const std::vector<StepGradients>& OneDevice() {
  static const auto* const gradients = [] {
    ToyJob one(1, /*cached=*/false);
    const auto plan = one.MakePlan("data_parallel", 1);
    EXPECT_TRUE(plan.ok()) << plan.status();
    auto result = testlib::GradientsOf(one.job(), *plan, kSteps);
    EXPECT_TRUE(result.ok()) << result.status();
    return new std::vector<StepGradients>(*std::move(result));
  }();
  return *gradients;
}

int Count(const Plan& plan, Instruction::Kind kind) {
  int count = 0;
  for (const DeviceProgram& device : plan.devices()) {
    count += std::count_if(device.instructions().begin(), device.instructions().end(),
                           [kind](const Instruction& i) { return i.kind() == kind; });
  }
  return count;
}

int CountPayload(const Plan& plan, Instruction::Payload payload) {
  int count = 0;
  for (const DeviceProgram& device : plan.devices()) {
    count += std::count_if(device.instructions().begin(), device.instructions().end(),
                           [payload](const Instruction& i) { return i.payload() == payload; });
  }
  return count;
}

void ExpectGradientsOfOneDevice(const ToyJob& toy, const Plan& plan) {
  const auto actual = testlib::GradientsOf(toy.job(), plan, kSteps);
  ASSERT_TRUE(actual.ok()) << actual.status();
  if (Count(plan, Instruction::REDUCE_GRADS) > 0) {
    EXPECT_LT(testlib::LargestRelativeDifference(OneDevice(), *actual), 1e-5);
  } else {
    EXPECT_EQ(testlib::FirstDifference(OneDevice(), *actual), "");
  }
}

// Strategy, number of ranks, recomputation.
using Case = std::tuple<std::string, int, bool>;

class AllStrategiesTest : public ::testing::TestWithParam<Case> {};

// In the shape that its own search chooses and, if it is a pipeline, over all ranks.
TEST_P(AllStrategiesTest, ComputesTheGradientsOfOneDevice) {
  const auto& [name, num_devices, recompute] = GetParam();
  const std::string spec = name + (recompute ? ",recompute=full" : "");
  const Strategy strategy = *FindStrategy(spec);
  const ToyJob toy(num_devices, strategy.frozen() == "cached");
  std::vector<int> shapes = {0};
  if (strategy.partitioner() != "none") shapes.push_back(num_devices);
  for (int num_stages : shapes) {
    SCOPED_TRACE(testing::Message() << "stages: " << num_stages);
    const auto plan = toy.MakePlan(spec, num_stages);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(Count(*plan, Instruction::RECOMPUTE) > 0, recompute);
    ExpectGradientsOfOneDevice(toy, *plan);
  }
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const auto& [strategy, num_devices, recompute] = info.param;
  std::string name = "strategy_" + strategy + "_on_" + std::to_string(num_devices) +
                     (recompute ? "_recomputing" : "");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, AllStrategiesTest,
                         ::testing::Combine(::testing::ValuesIn(ExactStrategyNames()),
                                            ::testing::Values(2, 4), ::testing::Bool()),
                         CaseName);

// The toy model's bubbles are shorter than 10 ms, which the preset skips.
TEST(PublishedFillTest, MovedSamplesGiveTheGradientsOfOneDevice) {
  for (int num_devices : {2, 4}) {
    SCOPED_TRACE(testing::Message() << num_devices << " devices");
    const ToyJob toy(num_devices, /*cached=*/false);
    const auto plan =
        toy.MakePlan("diffusionpipe-paper,min_bubble_us=0,local_batches=1|2|4", num_devices);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_GT(CountPayload(*plan, Instruction::FROZEN_VALUES), 0);
    ExpectGradientsOfOneDevice(toy, *plan);
  }
}

// 16 samples over 2 devices take 8 MiB in a frozen layer at once.
TEST(FrozenPiecesTest, EveryPolicyFitsWhereItsWholeShareDoesNot) {
  ToyJob toy(2, /*cached=*/false);
  toy.SetFrozenWorkspace(int64_t{1} << 20);
  for (const char* strategy :
       {"1f1b", "gpipe", "data_parallel", "1f1b,frozen=first_stage", "diffusionpipe",
        "diffusionpipe-paper", "diffusionpipe-paper,min_bubble_us=0,local_batches=1|2|4"}) {
    SCOPED_TRACE(strategy);
    const auto plan = toy.MakePlan(strategy, 0, int64_t{5} << 20);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_LE(LargestFrozenBatch(*plan), 4);
    ExpectGradientsOfOneDevice(toy, *plan);
  }
  const auto whole = toy.MakePlan("1f1b", 2);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(LargestFrozenBatch(*whole), 8);
}

// The check can fail: it detects other inputs, and one bit of one gradient.
TEST(AllStrategiesCheckTest, DetectsDifferences) {
  ToyJob toy(2, /*cached=*/false);
  const auto plan = toy.MakePlan("1f1b", 2);
  ASSERT_TRUE(plan.ok()) << plan.status();
  auto actual = testlib::GradientsOf(toy.job(), *plan, kSteps);
  ASSERT_TRUE(actual.ok()) << actual.status();
  ASSERT_EQ(testlib::FirstDifference(OneDevice(), *actual), "");
  Tensor& gradient = actual->back().gradients.begin()->second;
  gradient.data<float>()[0] += 1e-3f;
  EXPECT_NE(testlib::FirstDifference(OneDevice(), *actual), "");
  EXPECT_GT(testlib::LargestRelativeDifference(OneDevice(), *actual), 1e-5);
}

}  // namespace
}  // namespace dpipe
