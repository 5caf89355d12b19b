// Comparisons of a toy model's strategies on CPU devices: tests that results can be relied on.
#include "bench/comparison/comparison.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/in_process.h"
#include "core/report/progress.h"
#include "core/tensor/device_worker.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/forwarding_communicator.h"
#include "tests/testlib/toy_model.h"

namespace dpipe::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kDevices = 2;

// Scales sums over ranks, which are data parallelism's gradients. Pipelines with one replica per
// stage have no such sums.
class Scaling : public testlib::ForwardingCommunicator {
 public:
  Scaling(std::unique_ptr<Communicator> inner, float factor)
      : ForwardingCommunicator(std::move(inner)), factor_(factor) {}

  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    for (Tensor& tensor : tensors) {
      for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.data<float>()[i] *= factor_;
    }
    return ForwardingCommunicator::StartAllReduceSum(group, std::move(tensors), what);
  }

 private:
  const float factor_;
};

ConnectFn ConnectScaling(float factor) {
  return
      [=](const std::vector<std::shared_ptr<Device>>& devices,
          absl::Duration deadline) -> absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> {
        std::vector<std::unique_ptr<Communicator>> ranks;
        for (auto& inner : CreateInProcessCommunicators(static_cast<int>(devices.size()))) {
          ranks.push_back(std::make_unique<Scaling>(std::move(inner), factor));
        }
        return ranks;
      };
}

class ComparisonTest : public ::testing::Test {
 protected:
  ComparisonTest()
      : model_(testlib::MakeToyModel()),
        parameters_(testlib::MakeToyParameters(model_, /*seed=*/5)),
        inputs_(&model_, /*seed=*/5, DType::kF32),
        workers_(StartWorkers(std::vector<std::shared_ptr<Device>>(kDevices, Device::Cpu()))) {
    job_.model = &model_;
    job_.inputs = &inputs_;
    job_.frozen_parameters = parameters_.frozen_pointers;
    job_.backbone_parameters = nn::SourceOf(parameters_.backbone);
    for (const auto& worker : workers_) job_.workers.push_back(worker.get());
    options_.strategies = {"data_parallel", "gpipe", "1f1b"};
    options_.global_batch = 4;
    options_.num_micro_batches = 2;
    options_.steps = 2;
    options_.warmup_steps = options_.profiles = 1;
    options_.repeats = 4;
  }

  absl::StatusOr<Comparison> Compare() {
    report::Progress::Options progress_options;
    progress_options.write = [](absl::string_view) {};
    report::Progress progress(progress_options);
    return CompareStrategies(job_, options_, &progress);
  }

  const nn::Model model_;
  const testlib::ToyParameters parameters_;
  testlib::ToyInputs inputs_;
  const std::vector<std::unique_ptr<DeviceWorker>> workers_;
  TrainingJob job_;
  ComparisonOptions options_;
};

TEST_F(ComparisonTest, StrategiesAreComparedWithEachOtherWithoutAReference) {
  const auto comparison = Compare();
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  for (const StrategyResult& result : comparison->results.strategies()) {
    EXPECT_EQ(result.invalid(), "") << result.strategy();
    EXPECT_THAT(result.gradient_norms(), SizeIs(12)) << result.strategy();
    EXPECT_EQ(result.loss_check().reference(), "the other strategies") << result.strategy();
    EXPECT_EQ(result.loss_check().num_steps(), 12) << result.strategy();
    EXPECT_LT(result.loss_check().max_gradient_norm_difference(), 1e-4) << result.strategy();
  }
}

// Doubled gradients, which AdamW hides from the losses, and inverted ones, which norms do not show.
// The wrong strategy is found with a reference, and without one if strategies disagree.
TEST_F(ComparisonTest, WrongGradientsOfOneStrategyDoNotCount) {
  for (const float factor : {2.0f, -1.0f}) {
    for (const int reference_steps : {0, 3}) {
      job_.connect = ConnectScaling(factor);
      options_.reference_steps = reference_steps;
      const auto comparison = Compare();
      ASSERT_TRUE(comparison.ok()) << comparison.status();
      const auto& results = comparison->results.strategies();
      EXPECT_THAT(results[0].invalid(), HasSubstr("on one device"))
          << factor << " " << reference_steps;
      EXPECT_EQ(results[1].invalid(), "") << factor << " " << reference_steps;
      EXPECT_EQ(results[2].invalid(), "") << factor << " " << reference_steps;
    }
  }
}

TEST_F(ComparisonTest, OtherMathematicsIsLeftOut) {
  options_.strategies = {"xpipe", "1f1b"};
  const auto comparison = Compare();
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_TRUE(comparison->results.strategies(0).changes_mathematics());
  EXPECT_EQ(comparison->results.strategies(0).invalid(), "");
  EXPECT_FALSE(comparison->results.strategies(1).changes_mathematics());
}

// Called once per strategy while planning, once for the group, then before each turn.
TEST_F(ComparisonTest, AStopLeavesTheTurnsThatAllHaveTaken) {
  int asked = 0;
  options_.stop_requested = [&] { return ++asked > 4 + 7 ? "SIGINT" : ""; };
  const auto comparison = Compare();
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(comparison->results.interrupted(), "SIGINT after 2 of 4 turns");
  for (const StrategyResult& result : comparison->results.strategies()) {
    EXPECT_THAT(result.images_per_second(), SizeIs(2)) << result.strategy();
    EXPECT_THAT(result.step_ms(), SizeIs(4)) << result.strategy();
    EXPECT_THAT(result.losses(), SizeIs(6)) << result.strategy();
    EXPECT_GT(result.step_ms_predicted(), 0) << result.strategy();
  }
}

// A signal need not wait for the end of profiling.
TEST_F(ComparisonTest, AStopEndsProfiling) {
  std::atomic<bool> stop{false};
  std::atomic<int> asked{0};
  options_.stop_requested = [&] { return stop ? "SIGINT" : ""; };
  job_.should_stop = [&] { return ++asked > 5 ? stop = true : false; };
  const auto comparison = Compare();
  EXPECT_TRUE(absl::IsCancelled(comparison.status())) << comparison.status();
  EXPECT_THAT(std::string(comparison.status().message()), HasSubstr("stopped by SIGINT"));
  EXPECT_LE(asked, 5 + kDevices);
}

// While the model is profiled between turns: the turns so far count.
TEST_F(ComparisonTest, AStopEndsProfilingBetweenTurns) {
  std::atomic<bool> stop{false};
  std::atomic<int> turns{0};
  options_.profiles = options_.repeats;
  options_.before_turn = [&] {
    ++turns;
    return absl::OkStatus();
  };
  options_.stop_requested = [&] { return stop ? "SIGINT" : ""; };
  // The second repeat begins with the fourth turn.
  job_.should_stop = [&] { return turns > 3 ? stop = true : false; };
  const auto comparison = Compare();
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_EQ(comparison->results.interrupted(), "SIGINT after 1 of 4 turns");
  for (const StrategyResult& result : comparison->results.strategies()) {
    EXPECT_THAT(result.images_per_second(), SizeIs(1)) << result.strategy();
    EXPECT_GT(result.step_ms_predicted(), 0) << result.strategy();
  }
}

TEST_F(ComparisonTest, AStopBeforeEveryStrategyHadATurnLeavesNothing) {
  for (const int questions : {0, 3, 5}) {
    int asked = 0;
    options_.stop_requested = [&] { return ++asked > questions ? "SIGTERM" : ""; };
    const auto comparison = Compare();
    EXPECT_TRUE(absl::IsCancelled(comparison.status())) << comparison.status();
    EXPECT_THAT(std::string(comparison.status().message()), HasSubstr("stopped by SIGTERM"));
  }
}

}  // namespace
}  // namespace dpipe::bench
