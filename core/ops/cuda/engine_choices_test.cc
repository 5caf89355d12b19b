#include "core/ops/cuda/engine_choices.h"

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gtest/gtest.h"

namespace dpipe::ops::cuda {
namespace {

using ::testing::Test;
using Times = std::vector<std::vector<Nanos>>;

TEST(FastestEngineTest, HasTheMinimumMedian) {
  EXPECT_EQ(internal::FastestEngine(Times{{100, 100, 100}, {80, 80, 500}, {90, 10, 95}}), 1);
}

TEST(FastestEngineTest, FirstUnlessAnotherIsClearlyFaster) {
  EXPECT_EQ(internal::FastestEngine(Times{{1000}, {975}}), 0);
  EXPECT_EQ(internal::FastestEngine(Times{{1000}, {965}}), 1);
}

TEST(FastestEngineTest, IgnoresFailedEngines) {
  EXPECT_EQ(internal::FastestEngine(Times{{}, {90}, {80}}), 2);
  EXPECT_EQ(internal::FastestEngine(Times{{100}, {}}), 0);
  EXPECT_EQ(internal::FastestEngine(Times{{}, {}}), 0);
}

// On a CPU, engines take as long as they spin.
class EngineChoicesTest : public Test {
 protected:
  void Spin(absl::Duration time) const {
    const Nanos end = MonotonicNow() + absl::ToInt64Nanoseconds(time);
    while (MonotonicNow() < end) {
    }
  }
  // Three engines: slow, broken and quick.
  std::vector<Engine> Engines() {
    return {{"slow", [this] { return Spin(absl::Milliseconds(2)), ++runs_, absl::OkStatus(); }},
            {"broken", [] { return absl::UnimplementedError("not on this GPU"); }},
            {"quick", [this] { return Spin(absl::Microseconds(200)), ++runs_, absl::OkStatus(); }}};
  }
  std::string Choose(EngineChoices* choices, const EngineUse& use) {
    const auto chosen = choices->Choose(use, *device_, [this] { return Engines(); });
    EXPECT_TRUE(chosen.ok()) << chosen.status();
    return chosen.value_or("failed");
  }

  const std::shared_ptr<Device> device_ = Device::Cpu();
  const ScratchFolder folder_;
  const std::string path_ = folder_.File("engines.json");
  const EngineUse use_ = {"a product of 3 x 4 and 4 x 5", "GPU, 132 multiprocessors", "Lib 1.2"};
  int runs_ = 0;
};

TEST_F(EngineChoicesTest, NotInUseWithoutAFile) {
  EngineChoices choices;
  EXPECT_FALSE(choices.in_use());
  ASSERT_TRUE(choices.Open(path_, /*time_engines=*/true).ok());
  EXPECT_TRUE(choices.in_use());
}

TEST_F(EngineChoicesTest, FastestIsChosenOnceAndKept) {
  EngineChoices choices;
  ASSERT_TRUE(choices.Open(path_, true).ok());
  EXPECT_EQ(Choose(&choices, use_), "quick");
  const int runs = runs_;
  EXPECT_GT(runs, 0);
  EXPECT_EQ(Choose(&choices, use_), "quick");
  EXPECT_EQ(runs_, runs) << "must not be timed again";

  EngineChoices later;
  ASSERT_TRUE(later.Open(path_, false).ok());
  EXPECT_TRUE(later.in_use());
  EXPECT_EQ(Choose(&later, use_), "quick");
  EXPECT_EQ(runs_, runs);
}

TEST_F(EngineChoicesTest, ChoiceAppliesToOneOperationDeviceAndLibrary) {
  EngineChoices choices;
  ASSERT_TRUE(choices.Open(path_, true).ok());
  Choose(&choices, use_);
  ASSERT_TRUE(choices.Open(path_, false).ok());
  for (const auto change : {&EngineUse::operation, &EngineUse::device, &EngineUse::library}) {
    EngineUse other = use_;
    other.*change += "'";
    EXPECT_EQ(Choose(&choices, other), "") << "must use the first engine and time none";
  }
  EXPECT_EQ(Choose(&choices, use_), "quick");
}

TEST_F(EngineChoicesTest, NondeterministicChoicesAreSeparate) {
  EngineChoices choices;
  EXPECT_TRUE(choices.deterministic());
  ASSERT_TRUE(choices.Open(path_, true).ok());
  Choose(&choices, use_);
  choices.set_deterministic(false);
  EXPECT_FALSE(choices.deterministic());
  const int runs = runs_;
  EXPECT_EQ(Choose(&choices, use_), "quick");
  EXPECT_GT(runs_, runs) << "must be timed again";
  EXPECT_NE(ReadFile(path_)->find("4 x 5, in any order"), std::string::npos);
}

TEST_F(EngineChoicesTest, NewChoicesAreAddedToTheFile) {
  EngineChoices choices;
  ASSERT_TRUE(choices.Open(path_, true).ok());
  Choose(&choices, use_);
  EngineChoices again;
  ASSERT_TRUE(again.Open(path_, true).ok());
  Choose(&again, {"another", use_.device, use_.library});
  EngineChoices last;
  ASSERT_TRUE(last.Open(path_, false).ok());
  EXPECT_EQ(Choose(&last, use_), "quick");
  EXPECT_EQ(Choose(&last, {"another", use_.device, use_.library}), "quick");
}

TEST_F(EngineChoicesTest, ChoicesAreNotStoredWithoutKeep) {
  EngineChoices choices;
  ASSERT_TRUE(choices.Open(path_, /*time_engines=*/true, /*keep=*/false).ok());
  EXPECT_EQ(Choose(&choices, use_), "quick");
  EXPECT_TRUE(absl::IsNotFound(ReadFile(path_).status()));
}

TEST_F(EngineChoicesTest, FileDescribesTheChoice) {
  EngineChoices choices;
  ASSERT_TRUE(choices.Open(path_, true).ok());
  Choose(&choices, use_);
  const std::string text = *ReadFile(path_);
  for (const char* part : {"a product of 3 x 4 and 4 x 5", "GPU, 132 multiprocessors", "Lib 1.2",
                           "\"quick\"", "microseconds", "\"num_timed\": 3"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

TEST_F(EngineChoicesTest, MissingFileIsAnErrorWithoutTiming) {
  EngineChoices choices;
  const absl::Status opened = choices.Open(path_, false);
  EXPECT_TRUE(absl::IsNotFound(opened)) << opened;
  EXPECT_NE(opened.message().find(path_), std::string::npos) << opened;
}

TEST_F(EngineChoicesTest, ErrorsNameTheInvalidFile) {
  EngineChoices choices;
  for (const auto& [text, reason] : std::vector<std::pair<std::string, std::string>>{
           {"no JSON", ": line 1, column "},
           {"[]", "expected a JSON object"},
           {"{\"format\": 7}", "its format is not"},
           {"{\"format\": \"OpenDiffusionPipe engine choices 1\"}", "no list \"choices\""},
           {"{\"format\": \"OpenDiffusionPipe engine choices 1\", \"choices\": [3]}",
            "choice 0 has no string \"operation\""},
           {"{\"format\": \"OpenDiffusionPipe engine choices 1\", \"choices\": "
            "[{\"operation\": \"a\", \"device\": \"b\", \"library\": 1, \"engine\": \"c\"}]}",
            "choice 0 has no string \"library\""}}) {
    ASSERT_TRUE(WriteFileAtomically(path_, text).ok());
    const absl::Status opened = choices.Open(path_, true);
    EXPECT_TRUE(absl::IsInvalidArgument(opened)) << text << ": " << opened;
    EXPECT_NE(opened.message().find(reason), std::string::npos) << opened;
    EXPECT_NE(opened.message().find(path_), std::string::npos) << opened;
  }
  EXPECT_FALSE(choices.in_use());
}

TEST_F(EngineChoicesTest, MissingFolderIsAnError) {
  EngineChoices choices;
  ASSERT_TRUE(choices.Open(folder_.File("none/engines.json"), true).ok());
  EXPECT_FALSE(choices.Choose(use_, *device_, [this] { return Engines(); }).ok());
}

}  // namespace
}  // namespace dpipe::ops::cuda
