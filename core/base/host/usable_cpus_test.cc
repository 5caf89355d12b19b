#include "core/base/host/usable_cpus.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

int CountOf(int num_cores, std::optional<double> quota) {
  return internal::UsableCpusOf(std::vector<int>(num_cores, 0), quota).count;
}

TEST(UsableCpusTest, WholeCpusOfTheQuotaCount) {
  EXPECT_EQ(CountOf(8, std::nullopt), 8);
  EXPECT_EQ(CountOf(8, 8.5), 8);
  EXPECT_EQ(CountOf(8, 2.0), 2);
  EXPECT_EQ(CountOf(8, 1.9999), 2);
  EXPECT_EQ(CountOf(8, 1.5), 1);
  EXPECT_EQ(CountOf(2, 0.1), 1);
  EXPECT_EQ(CountOf(0, std::nullopt), 1);
}

TEST(UsableCpusTest, NoteNamesTheQuota) {
  EXPECT_EQ(internal::UsableCpusOf({3, 5}, 1.5).Note(),
            "a CPU quota of 1.5 (cgroup) leaves 1 of 2 cores");
  EXPECT_EQ(internal::UsableCpusOf({3, 5}, 2.0).Note(), "");
  EXPECT_EQ(internal::UsableCpusOf({3, 5}, std::nullopt).Note(), "");
}

TEST(UsableCpusTest, ThisMachineHasSome) {
  EXPECT_GE(FindUsableCpus().count, 1);
  EXPECT_LE(FindUsableCpus().count, static_cast<int>(AllowedCores().size()));
  EXPECT_GE(MaxLocalProcesses(), 16);
}

}  // namespace
}  // namespace dpipe
