#include "core/base/run_paths.h"

#include <filesystem>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

constexpr char kFile[] = "core/base/testdata/program_data.txt";

TEST(RunPathsTest, ProgramDataIsFoundFromAnyFolder) {
  EXPECT_EQ(ProgramDataPath(kFile), kFile);  // tests start where their files are
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

}  // namespace
}  // namespace dpipe
