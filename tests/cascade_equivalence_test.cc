// Checks that with tiny_cdm, two backbones trained at once, every strategy gives one device's
// losses and parameters, over several steps with real images, labels, noise and optimizer.
#include <memory>
#include <string>
#include <vector>

#include "data/scenes/generator.h"
#include "gtest/gtest.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

constexpr int kSteps = 4;
constexpr int kGlobalBatch = 4;

std::string DataFolder() {
  const std::string folder = ::testing::TempDir() + "/scenes";
  BuiltInDatasetOptions options;
  options.count = 16;
  const absl::Status status = EnsureBuiltInDataset(folder, options);
  EXPECT_TRUE(status.ok()) << status;
  return folder;
}

struct Outcome {
  testlib::TrainingOutcome training;
  Plan plan;
};

absl::StatusOr<Outcome> Train(const std::string& strategy, int num_devices, DType dtype) {
  models::TrainingSetupOptions options;
  options.model_folder = "data/tiny_cdm";
  options.data.folder = DataFolder();
  // The workers have no cores of their own, because the comparison must not need them.
  options.num_devices = 1;
  options.global_batch = kGlobalBatch;
  options.compute_dtype = dtype;
  options.frozen_quantum = 1;
  options.seed = 4;
  options.optimizer.learning_rate.peak = 2e-3f;
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options));
  const auto workers =
      StartWorkers(std::vector<std::shared_ptr<Device>>(num_devices, Device::Cpu()));
  TrainingJob job = setup->job();
  job.workers.clear();
  for (const auto& worker : workers) job.workers.push_back(worker.get());
  testlib::PlanRequest request;
  request.strategy = strategy;
  request.num_devices = num_devices;
  request.global_batch = kGlobalBatch;
  request.micro_batch_size = 1;
  request.num_stages = strategy == "data_parallel" || num_devices == 1 ? 1 : num_devices;
  const ModelProfile profile =
      testlib::SyntheticProfile(setup->model().model(), dtype,
                                /*frozen_quantum=*/1, {1, 2, 4}, /*seed=*/3);
  Outcome outcome;
  DPIPE_ASSIGN_OR_RETURN(outcome.plan, testlib::MakeTestPlan(profile, request));
  DPIPE_ASSIGN_OR_RETURN(outcome.training, testlib::Train(job, outcome.plan, kSteps));
  return outcome;
}

// True if the backbones' chains are on the ranks in opposite orders.
bool InOppositeDirections(const Plan& plan) {
  if (plan.chains_size() != 2 || plan.chains(0).component() == plan.chains(1).component()) {
    return false;
  }
  const auto first_rank = [&](int chain) {
    return plan.stages(plan.chains(chain).first_stage()).ranks(0);
  };
  return first_rank(0) != first_rank(1);
}

bool ReducesGradients(const Plan& plan) {
  for (const DeviceProgram& device : plan.devices()) {
    for (const Instruction& instruction : device.instructions()) {
      if (instruction.kind() == Instruction::REDUCE_GRADS) return true;
    }
  }
  return false;
}

TEST(CascadeEquivalenceTest, EveryStrategyComputesWhatOneDeviceComputes) {
  const auto expected = Train("data_parallel", 1, DType::kF32);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const char* strategy : {"diffusionpipe", "opendiffusionpipe", "gpipe", "data_parallel"}) {
    const auto actual = Train(strategy, 2, DType::kF32);
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    if (ReducesGradients(actual->plan)) {
      // Gradients are added in another order. AdamW divides by their size, so rounding matters as
      // much for small gradients as for large ones.
      EXPECT_LT(testlib::LargestRelativeDifference(expected->training, actual->training), 1e-4)
          << strategy;
    } else {
      EXPECT_EQ(testlib::FirstDifference(expected->training, actual->training), "") << strategy;
    }
    RecordProperty(std::string(strategy) + "_schedule",
                   InOppositeDirections(actual->plan) ? "opposite directions" : "one direction");
    if (std::string(strategy) == "diffusionpipe") {
      EXPECT_TRUE(InOppositeDirections(actual->plan));
      EXPECT_FALSE(ReducesGradients(actual->plan));
    }
  }
}

TEST(CascadeEquivalenceTest, InBf16Too) {
  const auto expected = Train("data_parallel", 1, DType::kBf16);
  const auto actual = Train("diffusionpipe", 2, DType::kBf16);
  ASSERT_TRUE(expected.ok() && actual.ok()) << expected.status() << actual.status();
  EXPECT_EQ(testlib::FirstDifference(expected->training, actual->training), "");
}

}  // namespace
}  // namespace dpipe
