#include "bench/suite_runner/suite_process.h"

#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::Status Shell(const std::string& script) { return RunProcess({"/bin/sh", "-c", script}); }

TEST(SuiteProcessTest, ReportsHowTheProcessEnded) {
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

TEST(SuiteProcessTest, ErrorHasTheLastLineOfLongOutput) {
  EXPECT_EQ(Shell("seq 1 20000 >&2; exit 1").message(), "its process ended with status 1: 20000");
}

TEST(SuiteProcessTest, AStopEndsTheProcess) {
  const auto stop = [] { return std::string("SIGINT"); };
  const absl::Status ended = RunProcess({"/bin/sh", "-c", "exec sleep 1000"}, stop);
  EXPECT_TRUE(absl::IsCancelled(ended));
  EXPECT_EQ(ended.message(), "stopped by SIGINT");
}

TEST(SuiteProcessTest, AStopEndsAProcessThatDoesNotListen) {
  const std::string listens_not = ::testing::TempDir() + "/listens_not";
  const absl::Status ended = RunProcess(
      {"/bin/sh", "-c", "trap '' TERM; : > " + listens_not + "; while :; do sleep 0.1; done"},
      [&] { return access(listens_not.c_str(), F_OK) == 0 ? "SIGINT" : ""; });
  EXPECT_TRUE(absl::IsCancelled(ended));
}

TEST(SuiteProcessTest, AProcessThatIsDoneIsNotStopped) {
  int asked = 0;
  EXPECT_TRUE(RunProcess({"/bin/true"}, [&] {
                ++asked;
                return std::string();
              }).ok());
  EXPECT_GT(asked, 0);
}

// A terminal sends Ctrl-C to both processes.
TEST(SuiteProcessTest, AProcessThatHasHeardOfTheSignalFirstDidNotFail) {
  int asked = 0;
  EXPECT_TRUE(absl::IsCancelled(
      RunProcess({"/bin/sh", "-c", "exit 130"}, [&] { return ++asked > 1 ? "SIGINT" : ""; })));
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
