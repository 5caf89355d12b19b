#include "bench/suite_process.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status Shell(const std::string& script) { return RunProcess({"/bin/sh", "-c", script}); }

TEST(SuiteProcessTest, HowItEndedIsTold) {
  EXPECT_TRUE(Shell("echo fine >&2").ok());
  EXPECT_EQ(Shell("echo first >&2; echo last >&2; exit 7").message(),
            "its process ended with status 7: last");
  EXPECT_EQ(Shell("exit 1").message(), "its process ended with status 1");
  EXPECT_EQ(Shell("echo 'check failed' >&2; kill -ABRT $$").message(),
            "its process ended with signal 6: check failed");
  EXPECT_TRUE(absl::IsCancelled(Shell("exit 3")));
  EXPECT_THAT(std::string(RunProcess({"/no/such/program"}).message()),
              HasSubstr("status 127: starting /no/such/program: No such file"));
}

TEST(SuiteProcessTest, OfALotThatIsSaidTheLastLineIsTold) {
  EXPECT_EQ(Shell("seq 1 20000 >&2; exit 1").message(), "its process ended with status 1: 20000");
}

TEST(SuiteProcessTest, AProgramStartsItselfAsItWasStarted) {
  EXPECT_THAT(internal::OwnCommand({"bin/suite", "--a", "--b=c d"}, {"--a", "--b=c d"}, "--x"),
              ElementsAre("/proc/self/exe", "--a", "--b=c d", "--x"));
  EXPECT_THAT(
      internal::OwnCommand({"ld.so", "--library-path", "lib", "bin/suite", "--a"}, {"--a"}, "--x"),
      ElementsAre("ld.so", "--library-path", "lib", "bin/suite", "--a", "--x"));
}

}  // namespace
}  // namespace dpipe::bench
