#include "tools/training/set_aside.h"

#include <filesystem>
#include <string>

#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SetAsideTest : public ::testing::Test {
 protected:
  SetAsideTest()
      : folder_(::testing::TempDir() + "/" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()),
        out_(folder_ + "/run"),
        log_(out_ + "/log.jsonl") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    checkpoints_ = *CheckpointFolder::Open(out_ + "/checkpoints");
  }

  static void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(path).parent_path());
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  }
  // Writes the files that a run would leave.
  void LeaveRun(const std::string& text) {
    Write(out_ + "/model/training.json", text);
    Write(log_, text);
    Write(out_ + "/tensorboard/events", text);
    Write(out_ + "/config.textproto", text);
    Write(out_ + "/quarantine.jsonl", text);
    Write(out_ + "/checkpoints/step_00000100/info.json", text);
    Write(out_ + "/checkpoints/step_00000120.aside/info.json", text);
  }
  RunAside SetAside() {
    const auto aside = SetRunAside(out_, log_, checkpoints_.get());
    EXPECT_TRUE(aside.ok()) << aside.status();
    return aside.value_or(RunAside());
  }

  const std::string folder_, out_;
  std::string log_;
  std::unique_ptr<CheckpointFolder> checkpoints_;
};

TEST_F(SetAsideTest, SetsNothingAsideIfThereIsNothing) {
  fs::create_directories(out_);  // made by hand
  EXPECT_THAT(SetAside().paths, IsEmpty());
  EXPECT_FALSE(fs::exists(out_ + ".aside"));
}

TEST_F(SetAsideTest, ListsPathsBeforeSettingThemAside) {
  EXPECT_THAT(*PathsOfRun(out_, log_, *checkpoints_), IsEmpty());
  LeaveRun("first");
  EXPECT_THAT(*PathsOfRun(out_, log_, *checkpoints_), ElementsAre(out_));
  EXPECT_THAT(*PathsOfRun(out_, "/no/log", *checkpoints_), ElementsAre(out_));
  EXPECT_TRUE(fs::exists(out_ + "/model"));
}

// The folder is a run like any other.
TEST_F(SetAsideTest, SetsAWholeRunAside) {
  LeaveRun("first");
  const RunAside aside = SetAside();
  EXPECT_EQ(aside.out, out_ + ".aside");
  EXPECT_TRUE(aside.has_checkpoints);
  EXPECT_EQ(aside.bytes, 6 * 5);
  EXPECT_THAT(aside.paths, ElementsAre(out_ + ".aside"));
  for (const char* file :
       {".aside/model/training.json", ".aside/log.jsonl", ".aside/config.textproto",
        ".aside/tensorboard/events", ".aside/checkpoints/step_00000100/info.json",
        ".aside/checkpoints/step_00000120.aside/info.json"}) {
    EXPECT_EQ(ReadFile(out_ + file).value_or(""), "first") << file;
  }
  EXPECT_FALSE(fs::exists(out_ + "/model"));
  EXPECT_TRUE(fs::exists(out_ + "/quarantine.jsonl")) << "it is about the data";
  EXPECT_THAT(*checkpoints_->Steps(), IsEmpty());
  const std::string text = DescribeAside(out_, aside);
  EXPECT_THAT(text, HasSubstr("the run that was in " + out_ + " is now " + out_ + ".aside (30 B)"));
  EXPECT_THAT(text, HasSubstr("--out=" + out_ + ".aside --resume=auto"));
  EXPECT_THAT(text, ::testing::EndsWith("rm -r " + out_ + ".aside"));
}

TEST_F(SetAsideTest, TheNextOneDoesNotTakeItsPlace) {
  LeaveRun("first");
  SetAside();
  LeaveRun("second");
  EXPECT_EQ(SetAside().out, out_ + ".aside2");
  fs::create_directories(out_ + ".aside3");  // by the user
  LeaveRun("third");
  EXPECT_EQ(SetAside().out, out_ + ".aside4");
  EXPECT_EQ(*ReadFile(out_ + ".aside/model/training.json"), "first");
  EXPECT_EQ(*ReadFile(out_ + ".aside2/model/training.json"), "second");
  EXPECT_EQ(*ReadFile(out_ + ".aside4/model/training.json"), "third");
}

TEST_F(SetAsideTest, SetsALogElsewhereAsideToo) {
  log_ = folder_ + "/logs/mine.jsonl";
  Write(log_, "first");
  EXPECT_THAT(SetAside().paths, ElementsAre(log_ + ".aside"));
  log_ = "/dev/null";
  EXPECT_THAT(SetAside().paths, IsEmpty());
}

TEST(PlacesOfRunTest, CoverARunsOutputs) {
  const std::vector<std::string> places = PlacesOfRun("/o/m", "/l/log");
  for (const char* place :
       {"/o/m/model", "/o/m/samples", "/o/m/checkpoints", "/o/m/best", "/l/log"}) {
    EXPECT_THAT(places, ::testing::Contains(place));
  }
}

}  // namespace
}  // namespace dpipe::tools
