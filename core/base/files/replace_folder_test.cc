#include "core/base/files/replace_folder.h"

#include <filesystem>
#include <string>

#include "core/base/files/file.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

class ReplaceFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ =
        testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    ASSERT_TRUE(MakeFolder(root_).ok());
  }
  std::string MakeFile(const std::string& folder, const std::string& name) {
    EXPECT_TRUE(MakeFolder(root_ + "/" + folder).ok());
    EXPECT_TRUE(WriteFileAtomically(root_ + "/" + folder + "/" + name, folder).ok());
    return root_ + "/" + folder;
  }

  std::string root_;
};

TEST_F(ReplaceFolderTest, UsesAFreeName) {
  const std::string staged = MakeFile("new", "a");
  ASSERT_TRUE(ReplaceFolder(staged, root_ + "/target").ok());
  EXPECT_EQ(ReadFile(root_ + "/target/a").value(), "new");
  EXPECT_FALSE(fs::exists(staged));
}

TEST_F(ReplaceFolderTest, NothingOfTheOldFolderIsLeft) {
  const std::string staged = MakeFile("new", "a");
  const std::string target = MakeFile("target", "only_before");
  ASSERT_TRUE(ReplaceFolder(staged, target).ok());
  EXPECT_EQ(ReadFile(target + "/a").value(), "new");
  EXPECT_FALSE(fs::exists(target + "/only_before"));
  EXPECT_FALSE(fs::exists(staged));
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
}

TEST_F(ReplaceFolderTest, KeepsTheTargetIfNothingIsStaged) {
  const std::string target = MakeFile("target", "a");
  const absl::Status status = ReplaceFolder(root_ + "/missing", target);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_EQ(ReadFile(target + "/a").value(), "target");
}

}  // namespace
}  // namespace dpipe
