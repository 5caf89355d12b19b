#include "core/base/files/run_paths.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "core/base/files/testdata/program_data.txt";

TEST(RunPathsTest, ProgramDataIsFoundFromAnyFolder) {
  // Where tests start; other tests of this program may have left it.
  fs::current_path(fs::path(getenv("TEST_SRCDIR")) / getenv("TEST_WORKSPACE"));
  EXPECT_EQ(ProgramDataPath(kFile), kFile);
  fs::current_path(testing::TempDir());
  ASSERT_FALSE(fs::exists(kFile));
  const std::string found = ProgramDataPath(kFile);
  EXPECT_TRUE(fs::path(found).is_absolute()) << found;
  EXPECT_TRUE(fs::exists(found)) << found;
}

TEST(RunPathsTest, OtherPathsStayAsTheyAre) {
  EXPECT_EQ(ProgramDataPath("no/such/file"), "no/such/file");
  EXPECT_EQ(ProgramDataPath("/no/such/file"), "/no/such/file");
}

// Values as a shell passes them after --flag=.
TEST(RunPathsTest, HomeFoldersAreExpandedAtTheBeginningOnly) {
  ASSERT_EQ(setenv("HOME", "/home/of/a user", 1), 0);
  ASSERT_EQ(setenv("BUILD_WORKING_DIRECTORY", "/working", 1), 0);
  ASSERT_EQ(setenv("BUILD_WORKSPACE_DIRECTORY", "/workspace", 1), 0);
  for (const auto& path : {UserPath, OutputPath}) {
    EXPECT_EQ(path("~"), "/home/of/a user");
    EXPECT_EQ(path("~/"), "/home/of/a user/");
    EXPECT_EQ(path("~/x/~y"), "/home/of/a user/x/~y");
    EXPECT_EQ(path("~/shards/x-{00..99}.tar"), "/home/of/a user/shards/x-{00..99}.tar");
    EXPECT_EQ(path("/a/~/b"), "/a/~/b");
  }
  EXPECT_EQ(UserPath("a/~"), "/working/a/~");
  EXPECT_EQ(OutputPath("a~"), "/workspace/a~");
  EXPECT_EQ(UserPath(""), "/working/");
}

TEST(RunPathsTest, HomeFoldersOfOthersAreExpandedAsInShells) {
  const struct passwd* user = getpwuid(getuid());
  if (user == nullptr) GTEST_SKIP() << "this user has no entry in the system's list";
  const std::string name = user->pw_name, home = user->pw_dir;
  ASSERT_EQ(setenv("HOME", "/another", 1), 0);
  EXPECT_EQ(UserPath("~" + name + "/x"), home + "/x");
  EXPECT_EQ(UserPath("~" + name), home);
  ASSERT_EQ(unsetenv("BUILD_WORKING_DIRECTORY"), 0);
  EXPECT_EQ(UserPath("~no_such_user_here/x"), "~no_such_user_here/x");
  // Programs started by the system have no HOME.
  ASSERT_EQ(unsetenv("HOME"), 0);
  EXPECT_EQ(UserPath("~/x"), home + "/x");
}

TEST(RunPathsTest, IsWithinResolvesLinksAndDots) {
  const ScratchFolder scratch;
  const std::string data = scratch.File("data");
  ASSERT_TRUE(MakeFolder(data + "/inner").ok());
  ASSERT_TRUE(MakeFolder(scratch.File("data2")).ok());
  fs::create_directory_symlink(data + "/inner", scratch.File("link"));
  EXPECT_TRUE(IsWithin(data, data));
  EXPECT_TRUE(IsWithin(data + "/", data));
  EXPECT_TRUE(IsWithin(data + "/new/run", data));
  EXPECT_TRUE(IsWithin(data, data + "/inner/.."));
  EXPECT_TRUE(IsWithin(scratch.File("data2/../data/x"), data));
  EXPECT_TRUE(IsWithin(scratch.File("link/run"), data));
  EXPECT_TRUE(IsWithin(data + "/inner/run", scratch.File("link")));
  EXPECT_TRUE(IsWithin(data, "/"));
  EXPECT_FALSE(IsWithin(scratch.File("data2"), data));
  EXPECT_FALSE(IsWithin(data + ".log", data));
  EXPECT_FALSE(IsWithin(scratch.path(), data));
  EXPECT_FALSE(IsWithin(scratch.File("link/../run"), data + "/inner"));
  fs::current_path(data);
  EXPECT_TRUE(IsWithin("run", "."));
  EXPECT_TRUE(IsWithin("run", data));
  EXPECT_FALSE(IsWithin("../run", data));
}

}  // namespace
}  // namespace dpipe
