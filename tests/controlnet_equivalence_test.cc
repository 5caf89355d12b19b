// Checks a ControlNet for tiny_sd, over several steps with real images, conditions, captions, noise
// and optimizer. Every strategy gives one device's losses and parameters, and only the trainable
// copy changes. The locked encoder, which reads two other frozen components, is frozen work like
// theirs.
#include <cstring>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "core/schedule/generators.h"
#include "data/scenes/generator.h"
#include "gtest/gtest.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/schedule_plan.h"
#include "tests/testlib/training.h"

namespace dpipe {
namespace {

constexpr int kSteps = 4;  // gradients have reached every parameter in the third one
constexpr int kGlobalBatch = 4;
constexpr int kFrozenQuantum = 2;

std::string DataFolder() {
  const std::string folder = ::testing::TempDir() + "/scenes_with_conditions";
  BuiltInDatasetOptions options;
  options.count = 48;
  options.with_conditions = true;
  const absl::Status status = EnsureBuiltInDataset(folder, options);
  EXPECT_TRUE(status.ok()) << status;
  return folder;
}

struct Run {
  Plan plan;
  std::map<std::string, Tensor> initial;
  testlib::TrainingOutcome outcome;
};

using MakePlanFn = std::function<absl::StatusOr<Plan>(const nn::Model&)>;

enum class Cache { kNo, kYes };

models::TrainingSetupOptions Options(DType dtype) {
  models::TrainingSetupOptions options;
  options.model_folder = "data/tiny_sd";
  options.model.kind = "controlnet";
  options.data.folder = DataFolder();
  options.data.random_flip = true;
  options.num_devices = 1;
  options.global_batch = kGlobalBatch;
  options.compute_dtype = dtype;
  options.frozen_quantum = kFrozenQuantum;
  options.seed = 4;
  options.caption_drop = 0.5;
  options.optimizer.learning_rate.peak = 1e-3f;
  options.optimizer.max_grad_norm = 1;
  return options;
}

absl::StatusOr<Run> TrainBy(const MakePlanFn& make_plan, int num_devices,
                            const models::TrainingSetupOptions& options, Cache cache) {
  DPIPE_ASSIGN_OR_RETURN(const auto setup, models::TrainingSetup::Create(options));
  if (cache == Cache::kYes) DPIPE_RETURN_IF_ERROR(setup->BuildCache(kSteps).status());
  // The workers have no cores of their own, because the comparison must not need them.
  const auto workers =
      StartWorkers(std::vector<std::shared_ptr<Device>>(num_devices, Device::Cpu()));
  TrainingJob job = cache == Cache::kYes ? setup->CachedJob() : setup->job();
  job.workers.clear();
  for (const auto& worker : workers) job.workers.push_back(worker.get());
  Run run;
  DPIPE_ASSIGN_OR_RETURN(run.initial,
                         nn::ReadAll(*job.backbone_parameters, {&job.model->backbone().program}));
  DPIPE_ASSIGN_OR_RETURN(run.plan, make_plan(*job.model));
  DPIPE_ASSIGN_OR_RETURN(run.outcome, testlib::Train(job, run.plan, kSteps));
  return run;
}

MakePlanFn ByStrategy(const std::string& strategy, int num_devices, DType dtype) {
  return [=](const nn::Model& model) {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = num_devices;
    request.global_batch = kGlobalBatch;
    request.micro_batch_size = 1;
    if (strategy != "opendiffusionpipe") request.num_stages = num_devices;
    if (strategy == "data_parallel" || strategy == "zero3") request.num_stages = 1;
    const ModelProfile profile =
        testlib::SyntheticProfile(model, dtype, kFrozenQuantum, {1, 2, 4}, /*seed=*/3);
    return testlib::MakeTestPlan(profile, request);
  };
}

absl::StatusOr<Run> Train(const std::string& strategy, int num_devices, DType dtype) {
  return TrainBy(ByStrategy(strategy, num_devices, dtype), num_devices, Options(dtype), Cache::kNo);
}

// The stages are cut at random.
absl::StatusOr<Run> TrainOnTwo(const std::string& schedule_name, bool recompute, DType dtype) {
  ScheduleRequest request;
  request.num_devices = 2;
  request.num_micro_batches = kGlobalBatch;
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(schedule_name, request));
  testlib::SchedulePlanOptions options;
  options.micro_batch_sizes = {1};
  options.recompute = recompute;
  options.frozen_quantum = kFrozenQuantum;
  const auto make_plan = [&](const nn::Model& model) {
    return testlib::MakeLoweredPlan(model, dtype, schedule, options);
  };
  return TrainBy(make_plan, 2, Options(dtype), Cache::kNo);
}

// True if any layer's weights are on one rank only.
bool HoldsWeightsOnce(const Plan& plan) {
  std::map<int, std::set<int>> ranks;
  for (const Stage& stage : plan.stages()) {
    for (int l = stage.layers().begin(); l < stage.layers().end(); ++l) {
      ranks[l].insert(stage.ranks().begin(), stage.ranks().end());
    }
  }
  for (const auto& [layer, holders] : ranks) {
    if (holders.size() > 1) return false;
  }
  return true;
}

class ControlNetEquivalenceTest : public ::testing::TestWithParam<DType> {};

TEST_P(ControlNetEquivalenceTest, PipelinesAreBitIdenticalToOneDevice) {
  const auto expected = Train("data_parallel", 1, GetParam());
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const char* strategy : {"gpipe", "1f1b", "diffusionpipe", "opendiffusionpipe"}) {
    const auto actual = Train(strategy, 2, GetParam());
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    if (HoldsWeightsOnce(actual->plan)) {
      EXPECT_EQ(testlib::FirstDifference(expected->outcome, actual->outcome), "") << strategy;
    } else {
      EXPECT_EQ(strategy, std::string("opendiffusionpipe"));
      EXPECT_LT(testlib::LargestRelativeDifference(expected->outcome, actual->outcome), 1e-5);
    }
  }
  // Split backward passes, stages that share a device, recomputed forward passes.
  const bool fp32 = GetParam() == DType::kF32;
  for (const std::string schedule : {fp32 ? "zb-h1" : "wave", "zb-v"}) {
    const auto actual = TrainOnTwo(schedule, /*recompute=*/!fp32, GetParam());
    ASSERT_TRUE(actual.ok()) << schedule << ": " << actual.status();
    EXPECT_EQ(testlib::FirstDifference(expected->outcome, actual->outcome), "") << schedule;
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ControlNetEquivalenceTest,
                         ::testing::Values(DType::kF32, DType::kBf16),
                         [](const ::testing::TestParamInfo<DType>& info) {
                           return std::string(DTypeName(info.param));
                         });

// Latents and contexts come from the cache, the locked encoder runs as usual: the bits are the
// same.
TEST_P(ControlNetEquivalenceTest, ACacheChangesNothing) {
  models::TrainingSetupOptions options = Options(GetParam());
  options.data.random_flip = false;
  const auto expected = TrainBy(ByStrategy("data_parallel", 1, GetParam()), 1, options, Cache::kNo);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const char* strategy : {"1f1b", "diffusionpipe"}) {
    const auto cached = TrainBy(ByStrategy(strategy, 2, GetParam()), 2, options, Cache::kYes);
    ASSERT_TRUE(cached.ok()) << strategy << ": " << cached.status();
    EXPECT_EQ(testlib::FirstDifference(expected->outcome, cached->outcome), "") << strategy;
    ASSERT_EQ(cached->plan.components_size(), 2);
    EXPECT_EQ(cached->plan.components(0).name(), "locked_encoder");
  }
  options.data.random_flip = true;
  EXPECT_EQ(TrainBy(ByStrategy("1f1b", 2, GetParam()), 2, options, Cache::kYes).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// The locked encoder reads both other components and has an output per block. Its samples change
// ranks between layers.
TEST_P(ControlNetEquivalenceTest, SamplesOfTheLockedEncoderMayChangeRanks) {
  const auto expected = Train("data_parallel", 1, GetParam());
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto actual = Train("diffusionpipe-paper,min_bubble_us=0,local_batches=", 2, GetParam());
  ASSERT_TRUE(actual.ok()) << actual.status();
  EXPECT_EQ(testlib::FirstDifference(expected->outcome, actual->outcome), "");
  std::set<std::string> moved;
  for (const DeviceProgram& rank : actual->plan.devices()) {
    for (const Instruction& i : rank.instructions()) {
      if (i.payload() != Instruction::FROZEN_VALUES) continue;
      moved.insert(actual->plan.components(i.component()).name());
    }
  }
  EXPECT_EQ(moved.count("locked_encoder"), 1);
}

// Of the backbone's parameters, the locked decoder's keep every bit and all others change.
TEST(ControlNetTrainingTest, OnlyTheCopyChanges) {
  for (const char* strategy : {"diffusionpipe", "data_parallel", "zero3"}) {
    const auto run = Train(strategy, 2, DType::kF32);
    ASSERT_TRUE(run.ok()) << strategy << ": " << run.status();
    ASSERT_EQ(run->outcome.parameters.size(), run->initial.size());
    for (const auto& [name, before] : run->initial) {
      const Tensor& after = run->outcome.parameters.at(name);
      const bool same = std::memcmp(before.raw_data(), after.raw_data(), before.size_bytes()) == 0;
      EXPECT_EQ(same, absl::StartsWith(name, "unet.")) << strategy << ": " << name;
    }
  }
}

// The locked encoder of the next step runs between the passes of this one.
TEST(ControlNetTrainingTest, TheLockedEncoderFillsBubbles) {
  const auto run = Train("diffusionpipe", 2, DType::kF32);
  ASSERT_TRUE(run.ok()) << run.status();
  int locked = -1;
  for (int c = 0; c < run->plan.components_size(); ++c) {
    if (run->plan.components(c).name() == "locked_encoder") locked = c;
  }
  ASSERT_GE(locked, 0);
  int filled = 0, after = 0;
  for (const DeviceProgram& rank : run->plan.devices()) {
    int backward_left = 0;
    for (const Instruction& i : rank.instructions()) {
      backward_left += i.kind() == Instruction::BACKWARD;
    }
    for (const Instruction& i : rank.instructions()) {
      backward_left -= i.kind() == Instruction::BACKWARD;
      if (i.kind() != Instruction::FROZEN_FORWARD || i.component() != locked) continue;
      EXPECT_EQ(i.step_offset(), 1);
      ++(backward_left > 0 ? filled : after);
    }
  }
  EXPECT_GT(filled, 0) << after << " of its instructions come after the last backward pass";
}

}  // namespace
}  // namespace dpipe
