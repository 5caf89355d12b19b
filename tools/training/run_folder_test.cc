#include "tools/training/run_folder.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/files/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RunFolderTest : public ::testing::Test {
 protected:
  RunFolderTest()
      : folder_(::testing::TempDir() + "/" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()),
        out_(folder_ + "/a run") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  static void Write(const std::string& path, const std::string& text = "text") {
    fs::create_directories(fs::path(path).parent_path());
    ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  }
  std::string Error() const { return std::string(CheckIsRunFolder(out_).message()); }

  const std::string folder_, out_;
};

TEST_F(RunFolderTest, NewEmptyAndUsedFoldersAreWritten) {
  EXPECT_EQ(Error(), "");
  fs::create_directories(out_);
  EXPECT_EQ(Error(), "");
  Write(out_ + "/STOP");
  EXPECT_EQ(Error(), "");
  fs::remove(out_ + "/STOP");
  Write(RunFolder(out_).log());
  Write(out_ + "/my notes.txt");
  EXPECT_EQ(Error(), "");
}

TEST_F(RunFolderTest, AUsersFolderIsRefused) {
  Write(out_ + "/my notes.txt");
  EXPECT_THAT(Error(), HasSubstr("was not made by training"));
  fs::remove_all(out_);
  Write(out_ + "/unet/config.json");  // a model
  EXPECT_THAT(Error(), HasSubstr("was not made by training"));
  fs::remove_all(out_);
  Write(out_);
  EXPECT_THAT(Error(), HasSubstr("is not a folder"));
}

// The commands of the message make it a run of this version.
TEST_F(RunFolderTest, ARunOfAnEarlierVersionIsRefusedWithTheCommandsThatMoveIt) {
  Write(out_ + "/training.json", "model");
  Write(out_ + ".checkpoints/step_00000100/info.json", "checkpoint");
  Write(out_ + ".log.jsonl", "log");
  Write(out_ + ".quarantine", "quarantine");
  const std::string error = Error();
  EXPECT_THAT(error, HasSubstr("holds a run of an earlier version"));
  ASSERT_EQ(std::system(error.substr(error.find('\n')).c_str()), 0) << error;
  EXPECT_EQ(Error(), "");
  const RunFolder run(out_);
  EXPECT_EQ(ReadFile(run.model() + "/training.json").value_or(""), "model");
  EXPECT_EQ(ReadFile(run.checkpoints() + "/step_00000100/info.json").value_or(""), "checkpoint");
  EXPECT_EQ(ReadFile(run.log()).value_or(""), "log");
  EXPECT_EQ(ReadFile(run.quarantine()).value_or(""), "quarantine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace dpipe::tools
