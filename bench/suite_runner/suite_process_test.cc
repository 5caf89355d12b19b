#include "bench/suite_runner/suite_process.h"

#include <unistd.h>

#include <string>
#include <thread>

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

// A player and its referee in one process.
struct Pair {
  Pair() {
    int to_player[2], to_referee[2];
    EXPECT_EQ(pipe(to_player) + pipe(to_referee), 0);
    player = {to_player[0], to_referee[1]};
    referee = {to_referee[0], to_player[1]};
  }
  TurnPipes player, referee;
};

TEST(TurnsTest, PlayersMoveOnlyInTheirTurn) {
  std::string order;
  Pair a, b;
  const auto play = [&order](const TurnPipes& pipes, char name) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(WaitForTurn(pipes).ok());
      order += name;
    }
    close(pipes.write_fd);
  };
  std::thread first(play, a.player, 'a');
  ASSERT_TRUE(*WaitUntilReady(a.referee));
  std::thread second(play, b.player, 'b');
  ASSERT_TRUE(*WaitUntilReady(b.referee));
  for (Pair* pair : {&a, &b, &b, &a}) {
    GiveTurn(pair->referee);
    ASSERT_TRUE(*WaitUntilReady(pair->referee));
  }
  for (Pair* pair : {&a, &b}) {
    GiveTurn(pair->referee);
    EXPECT_FALSE(*WaitUntilReady(pair->referee)) << "it has ended";
  }
  first.join(), second.join();
  EXPECT_EQ(order, "abbaab");
}

TEST(TurnsTest, ARefereeThatIsGoneEndsThePlayer) {
  Pair pair;
  close(pair.referee.write_fd);
  EXPECT_EQ(WaitForTurn(pair.player).code(), absl::StatusCode::kCancelled);
}

TEST(TurnsTest, PipesAreTwoOpenDescriptors) {
  EXPECT_TRUE(ParseTurnPipes("0,1").ok());
  for (const char* wrong : {"", "0", "0,1,2", "a,b", "0,987", "-1,1"}) {
    EXPECT_FALSE(ParseTurnPipes(wrong).ok()) << wrong;
  }
}

}  // namespace

}  // namespace dpipe::bench
