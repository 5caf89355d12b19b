// A session that draws for every step whether the backbone first gets its own estimate. With any
// strategy, and with any division into runs, it computes the same as one device.
#include <memory>
#include <string>
#include <vector>

#include "core/train/job.h"
#include "gtest/gtest.h"
#include "tests/testlib/toy_job.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

constexpr int kSteps = 16;

class Fixture {
 public:
  Fixture(int num_devices, double probability) : toy_(num_devices, DType::kF32, Options()) {
    job_.optimizer.max_grad_norm = 0.5;
    job_.self_conditioning = {probability, /*seed=*/7};
  }

  absl::StatusOr<testlib::TestPlans> Plans(const std::string& strategy) const {
    ModelProfile profile =
        testlib::SyntheticProfile(model_, DType::kF32, /*frozen_quantum=*/1, {1, 2, 4, 8}, 3);
    profile.set_self_conditioning_probability(0.5);
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = toy_.num_devices();
    request.micro_batch_size = 2;
    request.num_stages = strategy == "data_parallel" ? 1 : request.num_devices;
    return testlib::MakeTestPlans(profile, request);
  }

  absl::StatusOr<testlib::TrainingOutcome> Train(const testlib::TestPlans& plans,
                                                 int steps_per_run = kSteps) const {
    DPIPE_ASSIGN_OR_RETURN(const auto session,
                           StartSession(job_, plans.plain, &plans.self_conditioned));
    testlib::TrainingOutcome outcome;
    for (int done = 0; done < kSteps; done += steps_per_run) {
      const int count = std::min(steps_per_run, kSteps - done);
      DPIPE_ASSIGN_OR_RETURN(const RunResult run,
                             session->Run(count, done + count == kSteps, /*record=*/false));
      for (const StepResult& step : run.steps) outcome.losses.push_back(step.loss);
    }
    DPIPE_ASSIGN_OR_RETURN(outcome.parameters, session->CollectParameters());
    return outcome;
  }

  absl::StatusOr<testlib::TrainingOutcome> Train(const std::string& strategy,
                                                 int steps_per_run = kSteps) const {
    DPIPE_ASSIGN_OR_RETURN(const testlib::TestPlans plans, Plans(strategy));
    return Train(plans, steps_per_run);
  }

  TrainingJob& job() { return job_; }

 private:
  static testlib::ToyModelOptions Options() {
    testlib::ToyModelOptions options;
    options.self_conditioning = true;
    return options;
  }

  testlib::ToyJob toy_;
  const nn::Model& model_ = toy_.model();
  TrainingJob& job_ = toy_.job();
};

TEST(SelfConditioningTest, TheCoinIsFairAndKeyedByTheStep) {
  int heads = 0;
  for (int step = 0; step < 1000; ++step) {
    const bool head = StepSelfConditions({0.5, 3}, step);
    EXPECT_EQ(head, StepSelfConditions({0.5, 3}, step));
    heads += head;
    EXPECT_FALSE(StepSelfConditions({0, 3}, step));
    EXPECT_TRUE(StepSelfConditions({1, 3}, step));
  }
  EXPECT_NEAR(heads, 500, 64);  // four deviations of 1000 fair coins
}

TEST(SelfConditioningTest, EveryStrategyComputesWhatOneDeviceComputes) {
  const auto expected = Fixture(1, 0.5).Train("data_parallel");
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_LT(expected->losses.back(), expected->losses.front()) << "it does not learn";
  for (const char* strategy : {"gpipe", "1f1b", "diffusionpipe", "opendiffusionpipe"}) {
    const auto actual = Fixture(2, 0.5).Train(strategy);
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    if (std::string(strategy) == "opendiffusionpipe") {  // may choose two copies of the weights
      EXPECT_LT(testlib::LargestRelativeDifference(*expected, *actual), 1e-5);
    } else {
      EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "") << strategy;
    }
  }
  const auto replicas = Fixture(2, 0.5).Train("data_parallel");
  ASSERT_TRUE(replicas.ok()) << replicas.status();
  EXPECT_LT(testlib::LargestRelativeDifference(*expected, *replicas), 1e-5);
}

TEST(SelfConditioningTest, RunsCutIntoPiecesAreTheSame) {
  const Fixture fixture(2, 0.5);
  const auto whole = fixture.Train("diffusionpipe");
  const auto pieces = fixture.Train("diffusionpipe", /*steps_per_run=*/3);
  ASSERT_TRUE(whole.ok() && pieces.ok()) << whole.status() << pieces.status();
  EXPECT_EQ(testlib::FirstDifference(*whole, *pieces), "");
}

// One plan fills the bubbles with the next step's frozen work, the other runs its own first.
// Prepared results are used, and missing ones are computed.
TEST(SelfConditioningTest, PlansMayDifferInWhatTheyPrepare) {
  const auto expected = Fixture(1, 0.5).Train("data_parallel");
  const Fixture fixture(2, 0.5);
  const auto filled = fixture.Plans("diffusionpipe");
  const auto first = fixture.Plans("diffusionpipe,cross_iteration=false");
  ASSERT_TRUE(expected.ok() && filled.ok() && first.ok())
      << expected.status() << filled.status() << first.status();
  for (const testlib::TestPlans& plans :
       {testlib::TestPlans{filled->plain, first->self_conditioned},
        testlib::TestPlans{first->plain, filled->self_conditioned}}) {
    for (int steps_per_run : {kSteps, 1}) {
      const auto actual = fixture.Train(plans, steps_per_run);
      ASSERT_TRUE(actual.ok()) << actual.status();
      EXPECT_EQ(testlib::FirstDifference(*expected, *actual), "");
    }
  }
}

// The draw matters: never and always train differently.
TEST(SelfConditioningTest, TheCoinIsSeen) {
  const auto half = Fixture(1, 0.5).Train("data_parallel");
  for (double probability : {0.0, 1.0}) {
    const auto other = Fixture(1, probability).Train("data_parallel");
    ASSERT_TRUE(half.ok() && other.ok());
    EXPECT_GT(testlib::LargestRelativeDifference(*half, *other), 1e-5) << probability;
  }
}

TEST(SelfConditioningTest, PlansThatDoNotFitAreNamed) {
  const Fixture fixture(2, 0.5);
  const auto pipeline = fixture.Plans("gpipe"), parallel = fixture.Plans("data_parallel");
  ASSERT_TRUE(pipeline.ok() && parallel.ok());
  const auto mixed = fixture.Train({pipeline->plain, parallel->self_conditioned});
  EXPECT_EQ(mixed.status().message(),
            "the plan of self-conditioned steps has different layers on some rank than the plan of "
            "the other steps");
  Fixture one(1, 0.5);
  const auto plans = one.Plans("data_parallel");
  const auto session = StartSession(one.job(), plans->plain, &plans->self_conditioned);
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->Run(1, true, /*record=*/true).status().message(),
            "a session of two plans records no trace; record each plan in a session of its own");
}

}  // namespace
}  // namespace dpipe
