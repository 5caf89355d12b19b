// Losses and gradients that are not finite: every rank skips the same steps, or all end.
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/tensor/safetensors.h"
#include "core/train/batch_dump.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/toy_model.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kSteps = 8;
constexpr int kBadSample = 5;

// In some steps, one sample's noise, and so its loss, is NaN.
class BadInputs : public InputProvider {
 public:
  BadInputs(InputProvider* inputs, std::set<int64_t> bad_steps)
      : inputs_(inputs), bad_steps_(std::move(bad_steps)) {}

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override {
    DPIPE_ASSIGN_OR_RETURN(Tensor loaded, inputs_->Load(component, input, step, samples, device));
    if (input != "noise" || !samples.Contains(kBadSample) || bad_steps_.count(step) == 0) {
      return loaded;
    }
    Tensor row = loaded.Slice(kBadSample - samples.begin, kBadSample - samples.begin + 1);
    if (row.dtype() == DType::kF32) {
      row.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    } else {
      row.data<Bf16>()[0] = Bf16(std::numeric_limits<float>::infinity());
    }
    return loaded;
  }

 private:
  InputProvider* const inputs_;
  const std::set<int64_t> bad_steps_;
};

struct Outcome {
  absl::Status status;
  std::vector<StepResult> steps;  // as reported to on_step
  testlib::TrainingOutcome trained;
};

std::vector<int64_t> Skipped(const Outcome& outcome) {
  std::vector<int64_t> skipped;
  for (const StepResult& step : outcome.steps) {
    if (!step.applied) skipped.push_back(step.step);
  }
  return skipped;
}

class FaultTest : public ::testing::Test {
 protected:
  FaultTest()
      : model_(testlib::MakeToyModel()), parameters_(testlib::MakeToyParameters(model_, 5)) {}

  Outcome Train(const std::string& strategy, int num_devices, const std::set<int64_t>& bad_steps,
                int max_skipped, DType dtype = DType::kF32) {
    testlib::ToyInputs inputs(&model_, 9, dtype);
    BadInputs bad(&inputs, bad_steps);
    std::vector<std::shared_ptr<Device>> devices;
    for (int i = 0; i < num_devices; ++i) devices.push_back(Device::Cpu());
    const auto workers = StartWorkers(devices);
    TrainingJob job;
    for (const auto& worker : workers) job.workers.push_back(worker.get());
    job.model = &model_;
    job.inputs = &bad;
    job.frozen_parameters = parameters_.frozen_pointers;
    job.backbone_parameters = nn::SourceOf(parameters_.backbone);
    job.optimizer.learning_rate.peak = 1e-2f;
    job.optimizer.ema_decay = 0.9;
    job.compute_dtype = dtype;
    job.max_skipped_in_a_row = max_skipped;
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = num_devices;
    request.micro_batch_size = 2;
    const auto plan = testlib::MakeTestPlan(
        testlib::SyntheticProfile(model_, dtype, 1, {1, 2, 4, 8}, 3), request);
    Outcome outcome;
    auto session = StartSession(job, *plan);
    outcome.status = (*session)
                         ->Run(kSteps, /*is_last=*/true, /*record=*/false,
                               [&](const StepResult& step) { outcome.steps.push_back(step); })
                         .status();
    for (const StepResult& step : outcome.steps) {
      if (step.applied) outcome.trained.losses.push_back(step.loss);
    }
    outcome.trained.parameters = *(*session)->CollectParameters();
    if (outcome.status.ok()) updates_ = (*session)->State()->num_updates;
    return outcome;
  }

  nn::Model model_;
  testlib::ToyParameters parameters_;
  int64_t updates_ = 0;
};

TEST_F(FaultTest, SkippedStepsAreTheSameOnEveryPlan) {
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    const Outcome expected = Train("data_parallel", 1, {2, 3, 6}, 2, dtype);
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    EXPECT_THAT(Skipped(expected), ElementsAre(2, 3, 6));
    EXPECT_EQ(updates_, kSteps - 3);
    for (const double loss : expected.trained.losses) EXPECT_TRUE(std::isfinite(loss));
    for (const char* strategy : {"gpipe", "diffusionpipe", "zero3", "data_parallel", "chimera"}) {
      const Outcome actual = Train(strategy, 2, {2, 3, 6}, 2, dtype);
      ASSERT_TRUE(actual.status.ok()) << strategy << ": " << actual.status;
      EXPECT_THAT(Skipped(actual), ElementsAre(2, 3, 6)) << strategy;
      const double tolerance = dtype == DType::kF32 ? 1e-4 : 0.05;
      EXPECT_LT(testlib::LargestRelativeDifference(expected.trained, actual.trained), tolerance)
          << strategy;
    }
  }
}

// A skipped step only advances the step number. Otherwise it is as if the optimizer had not run.
// Here all steps are skipped.
TEST_F(FaultTest, ASkippedStepChangesNothing) {
  const Outcome all_bad = Train("gpipe", 2, {0, 1, 2, 3, 4, 5, 6, 7}, kSteps);
  ASSERT_TRUE(all_bad.status.ok()) << all_bad.status;
  EXPECT_EQ(updates_, 0);
  testlib::TrainingOutcome initial;
  initial.parameters = parameters_.backbone;
  EXPECT_EQ(testlib::FirstDifference(initial, all_bad.trained), "");
}

TEST_F(FaultTest, TheBadSampleIsKnown) {
  const Outcome outcome = Train("diffusionpipe", 2, {4}, 1);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  ASSERT_EQ(outcome.steps.size(), static_cast<size_t>(kSteps));
  EXPECT_FALSE(std::isfinite(outcome.steps[4].grad_norm));
  for (const StepResult& step : outcome.steps) {
    ASSERT_EQ(step.sample_losses.size(), 1u);
    ASSERT_EQ(step.sample_losses[0].size(), 8u);
    for (int i = 0; i < 8; ++i) {
      const bool bad = step.step == 4 && i == kBadSample;
      EXPECT_EQ(std::isfinite(step.sample_losses[0][i]), !bad) << step.step << ", sample " << i;
    }
    if (step.step != 4) {
      EXPECT_GT(step.grad_norm, 0);
    }
  }
}

// All ranks end at the step, which reports its numbers. The parameters are those before it.
TEST_F(FaultTest, StopMessageNamesStepAndReason) {
  for (const char* strategy : {"data_parallel", "gpipe", "diffusionpipe", "zero3"}) {
    const Outcome outcome = Train(strategy, 2, {3}, 0);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition) << strategy;
    EXPECT_THAT(std::string(outcome.status.message()),
                HasSubstr("step 4: the gradients' global norm is"))
        << strategy;
    EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("1 of 8 losses are not finite"));
    ASSERT_EQ(outcome.steps.size(), 4u) << strategy;
    EXPECT_THAT(Skipped(outcome), ElementsAre(3)) << strategy;
    for (const auto& [name, tensor] : outcome.trained.parameters) {
      for (const float x : tensor.span<float>()) ASSERT_TRUE(std::isfinite(x)) << name;
    }
  }
}

TEST_F(FaultTest, TooManyInARowEndTheRun) {
  EXPECT_TRUE(Train("gpipe", 2, {1, 2, 4, 5}, 2).status.ok());
  const Outcome outcome = Train("gpipe", 2, {1, 4, 5, 6, 7}, 2);
  EXPECT_THAT(std::string(outcome.status.message()),
              HasSubstr("3 such steps in a row exceed the limit of 2"));
  EXPECT_THAT(Skipped(outcome), ElementsAre(1, 4, 5, 6));
}

// Updates within a step are made before its losses are known.
TEST_F(FaultTest, UpdatesWithinAStepCannotBeSkipped) {
  for (const char* strategy : {"pipedream_stashing", "xpipe", "hetpipe"}) {
    const Outcome outcome = Train(strategy, 2, {2}, /*max_skipped=*/3);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition) << strategy;
    EXPECT_THAT(std::string(outcome.status.message()),
                AllOf(HasSubstr("step 3: "), HasSubstr(" of 8 losses are not finite"),
                      HasSubstr("lower learning rate")))
        << strategy;
    EXPECT_EQ(outcome.steps.size(), 2u) << strategy;
    EXPECT_TRUE(Train(strategy, 2, {}, 0).status.ok()) << strategy;
  }
}

// The dump contains exactly this batch, and names what is bad in it.
TEST_F(FaultTest, BadBatchIsSaved) {
  const Outcome outcome = Train("gpipe", 2, {4}, 1);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  testlib::ToyInputs inputs(&model_, 9, DType::kF32);
  BadInputs bad(&inputs, {4});
  BatchDump dump;
  dump.model = &model_;
  dump.inputs = &bad;
  dump.step = outcome.steps[4];
  dump.global_batch = 8;
  dump.describe_sample = [](int sample) { return absl::StrCat("image ", sample, ".png"); };
  const auto path = DumpBatch(dump, ::testing::TempDir() + "/dumps");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_THAT(*path, HasSubstr("/dumps/step_00000005.json"));
  const auto json = nlohmann::json::parse(*ReadFile(*path));
  EXPECT_EQ(json["grad_norm"], "nan");
  EXPECT_EQ(json["applied"], false);
  ASSERT_EQ(json["samples"].size(), 8u);
  EXPECT_EQ(json["samples"][kBadSample]["losses"][0], "nan");
  EXPECT_EQ(json["samples"][kBadSample]["from"], "image 5.png");
  EXPECT_EQ(json["samples"][0]["losses"][0], outcome.steps[4].sample_losses[0][0]);
  const auto tensors = SafetensorsFile::Open(path->substr(0, path->size() - 5) + ".safetensors");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const SafetensorsView* noise = tensors->Find("backbone.noise");
  ASSERT_NE(noise, nullptr);
  const auto expected = bad.Load("backbone", "noise", 4, {0, 8}, Device::Cpu());
  EXPECT_EQ(noise->bytes, absl::string_view(static_cast<const char*>(expected->raw_data()),
                                            expected->size_bytes()));
  EXPECT_NE(tensors->Find("encoder.pixels"), nullptr);
  EXPECT_EQ(tensors->Find("backbone.code"), nullptr) << "the encoder makes it";
}

TEST_F(FaultTest, GoodStepsAreNotSkipped) {
  EXPECT_THAT(Skipped(Train("diffusionpipe", 2, {}, 0)), IsEmpty());
}

}  // namespace
}  // namespace dpipe
