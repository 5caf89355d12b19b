#include "tools/training/training_checkpoints.h"

#include <filesystem>
#include <optional>
#include <string>

#include "core/train/checkpoint/checkpoint_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class TrainingCheckpointsTest : public ::testing::Test {
 protected:
  TrainingCheckpointsTest() {
    options_.folder = ::testing::TempDir() + "/" +
                      ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(options_.folder);
  }

  // Writes a checkpoint as a run of 100 steps would.
  void WriteCheckpoint(int64_t step) {
    auto folder = CheckpointFolder::Open(options_.folder);
    ASSERT_TRUE(folder.ok()) << folder.status();
    CheckpointContent content;
    content.info.step = content.info.num_updates = step;
    content.info.num_steps = 100;
    content.info.global_batch = 4;
    content.info.order = order_;
    content.info.dataset_size = 64;
    content.info.data_fingerprint = data_fingerprint_;
    content.info.config = config_;
    content.info.plan_for = {{"devices", "2"}};
    content.texts["plan.textproto"] = "strategy: \"saved plan\"\n";
    content.texts["self_conditioned_plan.textproto"] = "strategy: \"another one\"\n";
    ASSERT_TRUE((*folder)->Write(content).ok());
  }

  absl::StatusOr<std::unique_ptr<TrainingCheckpoints>> Open(const std::string& resume) {
    options_.resume = resume;
    said_.clear();
    return TrainingCheckpoints::Open(options_, config_, "config",
                                     [this](const std::string& line) { said_ += line + "\n"; });
  }
  // Returns the step from which the run would start, or -1 if opening fails.
  int64_t FirstStep(const std::string& resume) {
    const auto opened = Open(resume);
    error_ = std::string(opened.status().message());
    if (!opened.ok()) return -1;
    return (*opened)->resumed() == nullptr ? 0 : (*opened)->resumed()->step;
  }
  std::vector<int64_t> Steps() { return *(*CheckpointFolder::Open(options_.folder))->Steps(); }

  CheckpointOptions options_;
  ConfigFields config_ = {{"seed", "1"}, {"optimizer.lr", "0.001"}, {"output.path", "a"}};
  std::string data_fingerprint_ = "abc";
  DataOrder order_;
  std::string said_, error_;
};

TEST_F(TrainingCheckpointsTest, StartsIfThereIsNoCheckpoint) {
  for (const char* resume : {"", "auto", "never"}) EXPECT_EQ(FirstStep(resume), 0) << resume;
  EXPECT_EQ(FirstStep(options_.folder + "/step_00000005"), -1);
  EXPECT_THAT(error_, HasSubstr("there is no folder"));
}

TEST_F(TrainingCheckpointsTest, AnUnfinishedRunIsNotLost) {
  WriteCheckpoint(10);
  WriteCheckpoint(20);
  EXPECT_EQ(FirstStep(""), -1);
  EXPECT_THAT(error_, HasSubstr("has an unfinished run at step 20 of 100: --resume=auto resumes"));
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  EXPECT_EQ(FirstStep("auto"), 20);
  EXPECT_EQ(FirstStep("never"), 0);
  EXPECT_THAT(Steps(), ElementsAre(10, 20)) << "until the new run is known to start";
}

TEST_F(TrainingCheckpointsTest, ReadOnlyOpenFindsTheSame) {
  options_.read_only = true;
  EXPECT_EQ(FirstStep("auto"), 0);
  EXPECT_FALSE(std::filesystem::exists(options_.folder));
  WriteCheckpoint(10);
  EXPECT_EQ(FirstStep("auto"), 10);
  EXPECT_TRUE((*Open("auto"))->resumes_here());
  EXPECT_EQ(FirstStep(""), -1);
  EXPECT_THAT(error_, HasSubstr("has an unfinished run at step 10 of 100"));
}

TEST_F(TrainingCheckpointsTest, StartsOverAfterAFinishedRun) {
  WriteCheckpoint(100);
  EXPECT_EQ(FirstStep("auto"), 100);
  EXPECT_EQ(FirstStep(""), 0);
  EXPECT_FALSE((*Open(""))->resumes_here());
  EXPECT_THAT(Steps(), ElementsAre(100)) << "until the new run is known to start";
}

TEST_F(TrainingCheckpointsTest, CreatesNoFolder) {
  EXPECT_EQ(FirstStep(""), 0);
  EXPECT_FALSE(std::filesystem::exists(options_.folder));
}

// A run that goes back to an older checkpoint must not find the later ones of the abandoned run.
TEST_F(TrainingCheckpointsTest, ResumesFromAnEarlierCheckpoint) {
  for (int step : {10, 20, 30}) WriteCheckpoint(step);
  {
    const auto opened = Open(options_.folder + "/step_00000020");
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ((*opened)->resumed()->step, 20);
    EXPECT_TRUE((*opened)->resumes_here());
    ASSERT_TRUE((*opened)->SetLaterAside().ok());
    EXPECT_THAT(said_, HasSubstr("1 later checkpoint that this run does not resume from ("));
    EXPECT_THAT(said_, HasSubstr("rm -r " + options_.folder + "/step_00000030.aside"));
  }
  EXPECT_THAT(Steps(), ElementsAre(10, 20));
  EXPECT_EQ(FirstStep("auto"), 20);
}

// A run that resumes from a checkpoint elsewhere does not own the files in its own folder.
TEST_F(TrainingCheckpointsTest, ResumesFromAnotherRunsCheckpoint) {
  WriteCheckpoint(20);
  const std::string other = options_.folder + "/step_00000020";
  options_.folder += ".new";
  std::filesystem::remove_all(options_.folder);
  const auto opened = Open(other);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->resumed()->step, 20);
  EXPECT_FALSE((*opened)->resumes_here());
}

TEST_F(TrainingCheckpointsTest, SkipsDamagedOnesAndSaysSo) {
  for (int step : {10, 20}) WriteCheckpoint(step);
  std::filesystem::remove(options_.folder + "/step_00000020/state.json");
  EXPECT_EQ(FirstStep("auto"), 10);
  EXPECT_THAT(said_, HasSubstr("step_00000020 is not a complete checkpoint: cannot open"));
}

TEST_F(TrainingCheckpointsTest, TheConfigurationMustMatch) {
  WriteCheckpoint(10);
  config_["output.path"] = "b";
  EXPECT_EQ(FirstStep("auto"), 10);
  config_["optimizer.lr"] = "0.002";
  EXPECT_EQ(FirstStep("auto"), -1);
  EXPECT_THAT(error_, HasSubstr("pass --allow_config_change to resume with changes to "
                                "optimizer.lr: 0.001 -> 0.002"));
  options_.allow_config_change = true;
  EXPECT_EQ(FirstStep("auto"), 10);
  EXPECT_THAT(said_, HasSubstr("Changed:  optimizer.lr: 0.001 -> 0.002"));
  config_["seed"] = "2";
  EXPECT_EQ(FirstStep("auto"), -1);
  EXPECT_THAT(error_, HasSubstr("cannot resume with changes to seed: 1 -> 2"));
  EXPECT_EQ(FirstStep("never"), 0);
}

// An option added later: the earlier run used its default.
TEST_F(TrainingCheckpointsTest, FieldsMissingInACheckpointHaveTheirDefaults) {
  WriteCheckpoint(10);
  config_["data.max_aspect"] = "1";
  EXPECT_EQ(FirstStep("auto"), -1);
  EXPECT_THAT(error_, HasSubstr("data.max_aspect: (none) -> 1"));
  options_.defaults = {{"data.max_aspect", "1"}, {"seed", "7"}};
  EXPECT_EQ(FirstStep("auto"), 10);
  config_["data.max_aspect"] = "2";
  EXPECT_EQ(FirstStep("auto"), -1);
  EXPECT_THAT(error_, HasSubstr("cannot resume with changes to data.max_aspect: 1 -> 2"));
}

TEST_F(TrainingCheckpointsTest, ThePlansAreKeptWhileTheyFit) {
  WriteCheckpoint(10);
  auto same = (*Open("auto"))->SavedPlans({{"devices", "2"}});
  ASSERT_TRUE(same.ok() && same->has_value()) << same.status();
  EXPECT_EQ((*same)->plan.strategy(), "saved plan");
  EXPECT_EQ((*same)->self_conditioned.strategy(), "another one");
  auto other = (*Open("auto"))->SavedPlans({{"devices", "1"}});
  EXPECT_TRUE(other.ok() && !other->has_value());
  EXPECT_THAT(said_, HasSubstr("a new one, devices: 2 -> 1"));
  options_.replan = true;
  other = (*Open("auto"))->SavedPlans({{"devices", "2"}});
  EXPECT_TRUE(other.ok() && !other->has_value());
  EXPECT_THAT(said_, HasSubstr("as requested"));
}

TEST_F(TrainingCheckpointsTest, OrderIsKeptForUnchangedData) {
  EXPECT_EQ((*Open("auto"))->OrderFor(64, "abc")->first_step, 0) << "a run that begins";
  order_ = {7, 2.5};
  WriteCheckpoint(10);
  options_.allow_data_change = true;  // which has no effect on unchanged data
  const auto order = (*Open("auto"))->OrderFor(64, "abc");
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->first_step, 7);
  EXPECT_EQ(order->epochs_before, 2.5);
  EXPECT_THAT(said_, Not(HasSubstr("Order:")));
}

TEST_F(TrainingCheckpointsTest, GrownDataSetIsRefusedWithBothRemedies) {
  options_.folder += "/my run.checkpoints";
  WriteCheckpoint(10);
  const std::string message((*Open("auto"))->OrderFor(65, "xyz").status().message());
  EXPECT_THAT(
      message,
      HasSubstr("step_00000010: the data set had 64 samples and has 65 now; --allow_data_change "
                "resumes with a new order of the samples, '--model="));
  EXPECT_THAT(message, HasSubstr("/my run' --init=checkpoint starts a new run with the saved"));
}

TEST_F(TrainingCheckpointsTest, ADataSetThatHasGrownBeginsANewOrder) {
  order_ = {2, 1.5};
  WriteCheckpoint(10);
  options_.allow_data_change = true;
  const auto order = (*Open("auto"))->OrderFor(65, "xyz");
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->first_step, 10);
  EXPECT_EQ(order->epochs_before, 2) << "1.5 and 8 steps of 4 of 64";
  EXPECT_THAT(said_, HasSubstr("Order:    starts over at step 10: the data set had 64 samples and "
                               "has 65 now; weights, optimizer, averages and step are kept"));
}

TEST_F(TrainingCheckpointsTest, TheDataSetMustBeTheSame) {
  WriteCheckpoint(10);
  EXPECT_THAT(
      std::string((*Open("auto"))->OrderFor(64, "xyz").status().message()),
      AllOf(HasSubstr("step_00000010: names, captions or sizes of the data set's 64 samples "
                      "have changed"),
            HasSubstr("--allow_config_change resumes in the same order"),
            HasSubstr("--allow_data_change resumes in a new one"),
            HasSubstr(" --init=checkpoint starts a new run")));
  options_.allow_config_change = true;
  EXPECT_EQ((*Open("auto"))->OrderFor(64, "xyz")->first_step, 0);
  EXPECT_THAT(said_, HasSubstr("Changed:  the data set's fingerprint: abc -> xyz"));
  options_.allow_data_change = true;
  EXPECT_EQ((*Open("auto"))->OrderFor(64, "xyz")->first_step, 10);
  EXPECT_THAT(said_, HasSubstr("had 64 samples and has 64 others now"));
}

TEST_F(TrainingCheckpointsTest, CheckpointsWithoutFingerprintAreOfAnyData) {
  data_fingerprint_.clear();
  WriteCheckpoint(10);
  EXPECT_TRUE((*Open("auto"))->OrderFor(64, "xyz").ok());
}

TEST_F(TrainingCheckpointsTest, DataMayMoveIfAllowed) {
  config_["data.path"] = "/a";
  WriteCheckpoint(10);
  config_["data.path"] = "/b";
  EXPECT_EQ(FirstStep("auto"), -1);
  EXPECT_THAT(error_, HasSubstr("pass --allow_data_change to resume with changes to "
                                "data.path: /a -> /b"));
  options_.allow_data_change = true;
  EXPECT_EQ(FirstStep("auto"), 10);
  EXPECT_THAT(said_, HasSubstr("Changed:  data.path: /a -> /b"));
}

TEST(ConfigPolicyTest, IsWrittenDown) {
  for (const char* field : {"model.path", "data.flip", "seed", "global_batch", "evaluation.share",
                            "optimizer.moments"}) {
    EXPECT_EQ(ConfigPolicy(field), FieldPolicy::kFixed) << field;
  }
  for (const char* field : {"data.path", "data.min_side", "data.caption_column"}) {
    EXPECT_EQ(ConfigPolicy(field), FieldPolicy::kData) << field;
  }
  for (const char* field : {"optimizer.lr", "lr.shape", "steps", "dtype", "ema.decay",
                            "objective.min_snr_gamma", "a field of later"}) {
    EXPECT_EQ(ConfigPolicy(field), FieldPolicy::kRisky) << field;
  }
  for (const char* field : {"strategy", "devices", "minutes", "output.path", "samples.every",
                            "evaluation.every", "checkpoints.every", "model.lora_format"}) {
    EXPECT_EQ(ConfigPolicy(field), FieldPolicy::kFree) << field;
  }
}

// On a full disk, a finished run needs its model more than its checkpoints.
TEST_F(TrainingCheckpointsTest, MakesRoomForTheModelFromTheOldestOn) {
  for (const int64_t step : {10, 20, 100}) WriteCheckpoint(step);
  const auto opened = Open("never");
  ASSERT_TRUE(opened.ok()) << opened.status();
  constexpr int64_t kNeeded = 1000;
  std::optional<int64_t> at_first;
  // Each is worth 400 bytes.
  const auto free_bytes = [&]() -> std::optional<int64_t> {
    if (!at_first.has_value()) return std::nullopt;
    const auto steps = (*opened)->folder()->Steps();
    return *at_first + 400 * (3 - static_cast<int64_t>(steps->size()));
  };
  const auto make_room = [&](std::optional<int64_t> free) {
    at_first = free;
    said_.clear();
    return (*opened)->MakeRoom(kNeeded, free_bytes);
  };
  EXPECT_FALSE(make_room(std::nullopt)) << "not known";
  EXPECT_FALSE(make_room(kNeeded)) << "it is not the disk";
  EXPECT_FALSE(make_room(-1'000'000'000)) << "all of them are not enough";
  EXPECT_THAT(*(*opened)->folder()->Steps(), ElementsAre(10, 20, 100));
  EXPECT_TRUE(make_room(300));
  EXPECT_THAT(*(*opened)->folder()->Steps(), ElementsAre(100));
  EXPECT_THAT(said_, AllOf(HasSubstr("step_00000010 was removed to make room for the model"),
                           HasSubstr("step_00000020 was removed")));
}

TEST_F(TrainingCheckpointsTest, InitialWeightsMayDiffer) {
  EXPECT_EQ(ConfigPolicy("model.init"), FieldPolicy::kFree);
  EXPECT_EQ(ConfigPolicy("model.path"), FieldPolicy::kFixed);
}

}  // namespace
}  // namespace dpipe::tools
