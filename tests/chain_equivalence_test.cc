// Checks that chains of stages in any placement compute the same as one device: with values that
// stay on a device, two copies of the weights, unequal replicas, several backbones,
// self-conditioning, and stages divided over ranks.
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/schedule/builders/list_schedule.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/experiment.h"

namespace dpipe {
namespace {

using testlib::ExpectSame;
using testlib::Experiment;
using testlib::ExperimentJob;
using testlib::PlanOf;
using testlib::Train;

Schedule Listed(const std::vector<ScheduleChain>& chains, bool split = true) {
  ListScheduleOptions options;
  options.split_backward = split;
  auto schedule = ListSchedule("listed", chains, options);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return std::move(schedule).value();
}

// Chains that no generator makes, with random cuts. Stages of a chain return to a device
// repeatedly, adjacent or with others between them.
TEST(ChainsTest, StagesAnywhere) {
  const std::vector<std::vector<int>> places = {
      {0, 0}, {0, 1, 0}, {0, 1, 1, 0}, {0, 1, 0, 1}, {0, 1, 2, 0, 2, 1}, {1, 1, 0, 0, 1, 0}};
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    for (const std::vector<int>& devices : places) {
      Experiment experiment;
      experiment.model.u_shaped = true;
      experiment.plan.seed = seed;
      experiment.plan.recompute = seed == 2 || seed > 3;
      if (seed > 3) experiment.plan.recompute_blocks = 3;
      experiment.direct = seed == 3 || seed == 5;
      ExpectSame(experiment, Listed({{devices, 3}}, /*split=*/seed < 3),
                 absl::StrCat("seed ", seed, ", ", devices.size(), " stages, the last on ",
                              devices.back()));
    }
  }
}

// Two directions, each with its own weights. On three devices, the middle one holds both copies as
// one.
TEST(ChainsTest, TwoDirections) {
  for (int p : {2, 3, 4}) {
    std::vector<int> down, up;
    for (int d = 0; d < p; ++d) {
      down.push_back(d);
      up.push_back(p - 1 - d);
    }
    Experiment experiment;
    experiment.plan.micro_batch_sizes = {2};
    experiment.direct = p % 2 == 1;  // the planning side puts both copies on different devices
    ExpectSame(experiment, Listed({{down, 2}, {up, 2}}), absl::StrCat(p, " devices"));
    experiment.plan.num_groups = 2;
    experiment.plan.recompute = true;
    ExpectSame(experiment, Listed({{down, 2}, {up, 2}}), absl::StrCat("2 x ", p, " devices"));
  }
}

// The copies of both directions stay bit-identical, and so do those of replicas.
TEST(ChainsTest, CopiesOfTheWeightsStayEqual) {
  Experiment experiment;
  experiment.plan.micro_batch_sizes = {2};
  experiment.plan.num_groups = 2;
  experiment.direct = true;
  const auto plan = PlanOf(experiment, Listed({{{0, 1, 2}, 2}, {{2, 1, 0}, 2}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ExperimentJob experiment_job(experiment, plan->num_devices());
  const auto session = StartSession(experiment_job.job(), *plan);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE((*session)->Run(testlib::kExperimentSteps, /*is_last=*/true, /*record=*/false).ok());
  const auto initial = nn::ReadAll(*experiment_job.job().backbone_parameters,
                                   {&experiment_job.job().model->backbone().program});
  ASSERT_TRUE(initial.ok()) << initial.status();
  std::map<std::string, Tensor> first;
  int compared = 0, trained = 0;
  for (int rank = 0; rank < plan->num_devices(); ++rank) {
    std::map<std::string, Tensor> own;
    for (const auto& parameters : (*session)->parameters(rank)) parameters->Collect(&own);
    for (const auto& [name, tensor] : own) {
      const auto [it, inserted] = first.emplace(name, tensor);
      const auto equal = [&tensor = tensor](const Tensor& other) {
        return std::memcmp(other.raw_data(), tensor.raw_data(), tensor.size_bytes()) == 0;
      };
      if (inserted) {
        trained += !equal(initial->at(name));
      } else {
        EXPECT_TRUE(equal(it->second)) << name << " on rank " << rank;
        ++compared;
      }
    }
  }
  EXPECT_EQ(trained, static_cast<int>(first.size()));
  // The middle stage is on one rank of each group, the others are on two.
  EXPECT_GT(compared, static_cast<int>(first.size()));
}

// Neighbouring stages with different numbers of ranks: messages carry the common samples.
TEST(ChainsTest, UnequalReplication) {
  for (const std::vector<int>& replicas :
       {std::vector<int>{1, 2}, std::vector<int>{2, 1}, std::vector<int>{3, 2}}) {
    Experiment experiment;
    experiment.plan.micro_batch_sizes = {6};
    experiment.plan.replicas = replicas;
    experiment.model.u_shaped = true;
    ExpectSame(experiment, Listed({{{0, 1}, 3}}),
               absl::StrCat("straight, ", replicas[0], " and ", replicas[1]));
    ExpectSame(experiment, Listed({{{0, 1, 1, 0}, 3}}),
               absl::StrCat("V, ", replicas[0], " and ", replicas[1]));
  }
}

// Two backbones in opposite directions, with different micro-batch sizes.
TEST(ChainsTest, TwoBackbones) {
  Experiment experiment;
  experiment.model.second_backbone = true;
  experiment.plan.micro_batch_sizes = {1, 2};
  ScheduleChain down{{0, 1, 2}, 4, 0, 0}, up{{2, 1, 0}, 2, 0, 1};
  ExpectSame(experiment, Listed({down, up}), "three devices");
  experiment.dtype = DType::kBf16;
  experiment.plan.recompute = true;
  ExpectSame(experiment, Listed({down, up}, /*split=*/false), "three devices, recomputing");
  experiment.plan.num_groups = 2;
  experiment.dtype = DType::kF32;
  ExpectSame(experiment, Listed({down, up}), "two groups");
}

// Weights, gradients and moments are divided over a stage's ranks.
class ShardedTest : public ::testing::TestWithParam<bool> {};

TEST_P(ShardedTest, ComputesWhatOneDeviceComputes) {
  Experiment experiment;
  experiment.direct = GetParam();
  experiment.plan.sharded = true;
  ExpectSame(experiment, Listed({{{0, 1}, 3}}), "one rank a stage");
  experiment.plan.num_groups = 3;
  ExpectSame(experiment, Listed({{{0}, 2}}), "data parallel");
  experiment.plan.num_groups = 2;
  experiment.model.u_shaped = true;
  ExpectSame(experiment, Listed({{{0, 1, 1, 0}, 3}}), "V");
  experiment.plan.recompute = true;
  ExpectSame(experiment, Listed({{{0, 1}, 3}}, /*split=*/false), "recomputing");
  experiment.plan.reduce_each_micro_batch = true;
  ExpectSame(experiment, Listed({{{0}, 3}}, /*split=*/false), "accumulating shards");
  experiment.plan.recompute_blocks = 4;
  ExpectSame(experiment, Listed({{{0, 1}, 3}}, /*split=*/false), "recomputing in blocks");
  experiment.plan.replicas = {2, 1};
  experiment.plan.micro_batch_sizes = {2};
  ExpectSame(experiment, Listed({{{0, 1}, 3}}), "unequal replication");
  experiment.model.self_conditioning = true;
  ExpectSame(experiment, Listed({{{0, 1, 0, 1}, 3, 2}}), "two laps");
}

INSTANTIATE_TEST_SUITE_P(Plans, ShardedTest, ::testing::Bool(),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return std::string(info.param ? "direct" : "lowered");
                         });

// ZeRO-1 keeps the weights that adapters adapt on every rank, ZeRO-3 divides them.
TEST(ShardedAdaptersTest, ComputeWhatOneDeviceComputes) {
  for (const bool once : {false, true}) {
    Experiment experiment;
    experiment.model.lora_rank = 2;
    experiment.plan.sharded = true;
    experiment.plan.gathers_once = once;
    experiment.plan.num_groups = 2;
    const std::string name = once ? "ZeRO-1" : "ZeRO-3";
    const auto plan = PlanOf(experiment, Listed({{{0}, 2}}));
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->stages(0).keeps_frozen_weights(), once);
    ExpectSame(experiment, Listed({{{0}, 2}}), name + ", data parallel");
    ExpectSame(experiment, Listed({{{0, 1}, 3}}), name + ", two stages");
    experiment.plan.recompute = true;
    experiment.plan.recompute_blocks = 3;
    ExpectSame(experiment, Listed({{{0}, 2}}, /*split=*/false), name + ", recomputing");
  }
}

// With one micro-batch, the sums equal those of whole gradients, and a rank needs less memory.
TEST(ShardedMemoryTest, TrainsTheSameWithLessMemory) {
  Experiment experiment;
  experiment.model.width = 64;
  experiment.plan.num_groups = 4;
  const Schedule schedule = Listed({{{0}, 1}});
  std::vector<testlib::TrainingOutcome> outcomes;
  std::vector<int64_t> peaks;
  for (bool sharded : {false, true}) {
    experiment.plan.sharded = sharded;
    const auto plan = PlanOf(experiment, schedule);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const ExperimentJob experiment_job(experiment, plan->num_devices());
    const auto session = StartSession(experiment_job.job(), *plan);
    ASSERT_TRUE(session.ok()) << session.status();
    const auto run = (*session)->Run(testlib::kExperimentSteps, /*is_last=*/true, /*record=*/false);
    ASSERT_TRUE(run.ok()) << run.status();
    testlib::TrainingOutcome outcome;
    for (const StepResult& step : run->steps) outcome.losses.push_back(step.loss);
    outcome.parameters = *(*session)->CollectParameters();
    outcomes.push_back(std::move(outcome));
    peaks.push_back(run->peak_memory_bytes[1]);
  }
  // The norm's squares are added shard by shard, so the clipped update agrees to rounding.
  EXPECT_EQ(outcomes[0].losses[0], outcomes[1].losses[0]);
  EXPECT_LT(testlib::LargestRelativeDifference(outcomes[0], outcomes[1]), 1e-6);
  // Whole: master, gradient, two moments. Sharded: a quarter of these, and half of the layers.
  EXPECT_LT(peaks[1], 0.7 * peaks[0]) << peaks[0];
}

// Three micro-batches: the peak is lower by about the gradients of all but two buckets.
TEST(ShardedMemoryTest, AccumulatedShardsTakeLessMemory) {
  Experiment experiment;
  experiment.model.width = 64;
  experiment.plan.num_groups = 4;
  experiment.plan.sharded = true;
  std::vector<int64_t> peaks;
  std::vector<double> losses;
  for (const bool each : {false, true}) {
    experiment.plan.reduce_each_micro_batch = each;
    const auto plan = PlanOf(experiment, Listed({{{0}, 3}}, /*split=*/false));
    ASSERT_TRUE(plan.ok()) << plan.status();
    const ExperimentJob experiment_job(experiment, plan->num_devices());
    const auto session = StartSession(experiment_job.job(), *plan);
    ASSERT_TRUE(session.ok()) << session.status();
    const auto run = (*session)->Run(testlib::kExperimentSteps, /*is_last=*/true, /*record=*/false);
    ASSERT_TRUE(run.ok()) << run.status();
    peaks.push_back(run->peak_memory_bytes[1]);
    losses.push_back(run->steps.back().loss);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-6);
  EXPECT_LT(peaks[1], 0.8 * peaks[0]) << peaks[0];
}

TEST(ShardedMemoryTest, MissingGatherIsAnError) {
  Experiment experiment;
  experiment.plan.sharded = true;
  experiment.direct = true;
  auto plan = PlanOf(experiment, Listed({{{0}, 1}}));
  ASSERT_TRUE(plan.ok());
  auto* instructions = plan->mutable_devices(0)->mutable_instructions();
  for (int i = 0; i < instructions->size(); ++i) {
    if (instructions->Get(i).kind() != Instruction::GATHER_PARAMS) continue;
    instructions->DeleteSubrange(i, 1);
    break;
  }
  const ExperimentJob experiment_job(experiment, 1);
  EXPECT_THAT(std::string(testlib::Train(experiment_job.job(), *plan, 1).status().message()),
              ::testing::HasSubstr("the parameters of stage 0, layers [0, 10) are not gathered"));
}

TEST(ChainsTest, SelfConditioning) {
  Experiment experiment;
  experiment.model.self_conditioning = true;
  experiment.model.u_shaped = true;
  ExpectSame(experiment, Listed({{{0, 1, 2, 0, 1, 2}, 4, 3}}), "straight");
  ExpectSame(experiment, Listed({{{0, 1, 1, 0, 0, 1, 1, 0}, 3, 4}}), "V");
  experiment.plan.recompute = true;
  experiment.dtype = DType::kBf16;
  ExpectSame(experiment, Listed({{{0, 1, 0, 1}, 3, 2}}), "recomputing");
  experiment.plan.recompute_blocks = 3;
  ExpectSame(experiment, Listed({{{0, 1, 0, 1}, 3, 2}}, /*split=*/false), "recomputing in blocks");
}

// The second lap does change the results.
TEST(ChainsTest, SelfConditioningIsSeen) {
  Experiment experiment;
  experiment.model.self_conditioning = true;
  const auto once = Train(experiment, Listed({{{0}, 4, 0}}));
  const auto twice = Train(experiment, Listed({{{0, 0}, 4, 1}}));
  ASSERT_TRUE(once.ok() && twice.ok()) << once.status() << twice.status();
  EXPECT_GT(testlib::LargestRelativeDifference(*once, *twice), 1e-5);
}

TEST(ChainsTest, SelfConditioningNeedsAnInput) {
  const auto outcome = Train({}, Listed({{{0, 1, 0, 1}, 4, 2}}));
  EXPECT_EQ(outcome.status().message(),
            "model toy: component backbone declares no self-conditioning, but the plan runs it "
            "twice per micro-batch");
}

// Plans that were not verified end with an error that names what is missing.
TEST(ChainsTest, BrokenPlansAreNamed) {
  Experiment experiment;
  experiment.direct = true;
  experiment.model.u_shaped = true;
  experiment.plan.recompute = true;
  const auto plan = PlanOf(experiment, Listed({{{0, 1, 1, 0}, 2}}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const ExperimentJob experiment_job(experiment, 2);
  // Removes the first instruction of this kind on the rank.
  const auto error_without = [&](int rank, Instruction::Kind kind) {
    Plan broken = *plan;
    auto* instructions = broken.mutable_devices(rank)->mutable_instructions();
    for (int i = 0; i < instructions->size(); ++i) {
      if (instructions->Get(i).kind() != kind) continue;
      instructions->DeleteSubrange(i, 1);
      break;
    }
    return std::string(testlib::Train(experiment_job.job(), broken, 1).status().message());
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(error_without(0, Instruction::RECOMPUTE),
              HasSubstr("its forward pass kept no state and was not recomputed"));
  EXPECT_THAT(error_without(0, Instruction::WEIGHT_GRAD),
              HasSubstr("(OPTIMIZER_STEP): 1 passes are not finished; the first is micro-batch"));
  EXPECT_THAT(error_without(1, Instruction::RECV), HasSubstr("no activation was received for it"));
  EXPECT_THAT(error_without(1, Instruction::FORWARD), HasSubstr("rank 1, step 0, instruction"));
}

// The compared results can differ: another cut of a schedule changes nothing, another model does.
TEST(ChainsTest, OtherTrainingIsDifferent) {
  Experiment experiment;
  const auto a = Train(experiment, Listed({{{0, 1}, 4}}));
  experiment.plan.seed = 2;
  const auto b = Train(experiment, Listed({{{0, 1}, 4}}));
  experiment.model.u_shaped = true;
  const auto c = Train(experiment, Listed({{{0, 1}, 4}}));
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(testlib::FirstDifference(*a, *b), "");
  EXPECT_NE(testlib::FirstDifference(*a, *c), "");
}

}  // namespace
}  // namespace dpipe
