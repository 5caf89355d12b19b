#include "core/base/files/scratch_folder.h"

#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

TEST(ScratchFolderTest, ExistsAsLongAsTheObject) {
  for (const auto place : {ScratchFolder::Place::kDisk, ScratchFolder::Place::kMemory}) {
    auto folder = std::make_unique<ScratchFolder>(place);
    const std::string path = folder->path();
    EXPECT_TRUE(fs::is_empty(path));
    fs::create_directories(folder->File("a/b"));
    std::ofstream(folder->File("a/b/c.txt")) << "x";
    EXPECT_TRUE(fs::exists(path + "/a/b/c.txt"));
    folder.reset();
    EXPECT_FALSE(fs::exists(path));
  }
}

TEST(ScratchFolderTest, IsInTheTestsTemporaryFolder) {
  const ScratchFolder folder;
  EXPECT_TRUE(absl::StartsWith(folder.path(), ::testing::TempDir())) << folder.path();
}

TEST(ScratchFolderTest, NamesAreUnique) {
  const ScratchFolder one, other;
  EXPECT_NE(one.path(), other.path());
}

TEST(ScratchFolderTest, IsRemovedEvenIfWriteProtected) {
  std::string path;
  {
    const ScratchFolder folder;
    path = folder.path();
    std::ofstream(folder.File("kept.txt")) << "x";
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_exec);
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace dpipe
