#include "core/comm/rendezvous/launch/local_launcher.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/host/usable_cpus.h"
#include "core/comm/rendezvous/job_secret.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

LaunchOptions Shell(int num_processes, const std::string& script) {
  LaunchOptions options;
  options.num_processes = num_processes;
  options.program = "/bin/sh";
  options.arguments = {"-c", script};
  return options;
}

struct Launched {
  int exit_code = -1;
  std::string out, err;
};

Launched Launch(const LaunchOptions& options) {
  CaptureStdout();
  CaptureStderr();
  const auto exit_code = LaunchLocalProcesses(options);
  Launched launched;
  launched.out = GetCapturedStdout();
  launched.err = GetCapturedStderr();
  EXPECT_TRUE(exit_code.ok()) << exit_code.status();
  launched.exit_code = exit_code.value_or(-1);
  return launched;
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(LocalLauncherTest, MoreProcessesThanTheMachineCanHoldAreRefused) {
  const int max = MaxLocalProcesses();
  EXPECT_THAT(std::string(LaunchLocalProcesses(Shell(max + 1, "exit 0")).status().message()),
              HasSubstr(absl::StrCat("--nproc=", max + 1, ": at most ", max, " processes can")));
}

// Polls, because the condition depends on another program. Returns false if it has not come true
// within a minute.
template <typename Condition>
bool WaitUntil(const Condition& holds) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!holds()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

TEST(LocalLauncherTest, ProcessesKnowTheirIndexAndOutputIsLabelled) {
  const Launched launched = Launch(
      Shell(3,
            "echo out $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE; echo err $RANK >&2; "
            "printf 'no newline'"));
  EXPECT_EQ(launched.exit_code, 0) << launched.err;
  for (const char* line :
       {"[0] out 0 of 3, 0 of 3\n", "[2] out 2 of 3, 2 of 3\n", "[1] no newline\n"}) {
    EXPECT_THAT(launched.out, HasSubstr(line));
  }
  EXPECT_THAT(launched.err, AllOf(HasSubstr("[0] err 0\n"), HasSubstr("[2] err 2\n")));
}

// Returns the text that each process prints first, after "secret ".
std::vector<std::string> SecretsIn(const std::string& out) {
  const std::string begin = "] secret ";
  std::vector<std::string> secrets;
  for (size_t at = 0; (at = out.find(begin, at)) != std::string::npos;) {
    at += begin.size();
    secrets.push_back(out.substr(at, out.find('\n', at) - at));
  }
  return secrets;
}

TEST(LocalLauncherTest, AllOfAJobHaveASecretThatIsOnNoCommandLine) {
  const LaunchOptions options = Shell(2,
                                      "echo secret $DPIPE_JOB_SECRET; for pid in $$ $PPID; do "
                                      "echo $(tr '\\0' ' ' < /proc/$pid/cmdline); done");
  const Launched launched = Launch(options);
  EXPECT_EQ(launched.exit_code, 0) << launched.err;
  const std::vector<std::string> secrets = SecretsIn(launched.out);
  ASSERT_EQ(secrets.size(), 2) << launched.out;
  EXPECT_EQ(secrets[0], secrets[1]);
  EXPECT_TRUE(JobSecret::FromHex(secrets[0], "it").ok());
  size_t times = 0;
  for (size_t at = 0; (at = launched.out.find(secrets[0], at)) != std::string::npos; ++at) ++times;
  EXPECT_EQ(times, 2) << "where it was echoed: " << launched.out;
  EXPECT_THAT(launched.out, HasSubstr("/bin/sh -c echo secret ")) << "the command lines";
  EXPECT_NE(SecretsIn(Launch(options).out)[0], secrets[0]) << "each job has its own";
}

TEST(LocalLauncherTest, TheSecretOfAJobIsNotThatOfTheLaunchersOwn) {
  setenv(kSecretVariable, "of another job", /*overwrite=*/1);
  const Launched launched = Launch(Shell(1, "echo secret $DPIPE_JOB_SECRET"));
  unsetenv(kSecretVariable);
  const std::vector<std::string> secrets = SecretsIn(launched.out);
  ASSERT_EQ(secrets.size(), 1);
  EXPECT_TRUE(JobSecret::FromHex(secrets[0], "it").ok());
}

TEST(LocalLauncherTest, TheFirstErrorCounts) {
  const std::string flag = ::testing::TempDir() + "/first_has_failed";
  std::remove(flag.c_str());
  // Process 0 fails after process 1.
  const Launched launched = Launch(Shell(2, absl::StrCat("if [ $RANK = 1 ]; then touch ", flag,
                                                         "; exit 7; fi; ", "while [ ! -e ", flag,
                                                         " ]; do sleep 0.01; done; sleep 0.3; "
                                                         "exit 8")));
  EXPECT_EQ(launched.exit_code, 7);
  EXPECT_THAT(launched.err, HasSubstr("launcher: process 1 (pid "));
  EXPECT_THAT(launched.err, HasSubstr(") has failed with exit code 7\n"));
}

TEST(LocalLauncherTest, KillsAfterGracePeriod) {
  LaunchOptions options = Shell(3, "if [ $RANK = 1 ]; then kill -SEGV $$; fi; exec sleep 1000");
  options.grace = absl::Milliseconds(100);
  const Launched launched = Launch(options);
  EXPECT_EQ(launched.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(launched.err, HasSubstr("was ended by SIGSEGV"));
  EXPECT_THAT(launched.err, HasSubstr("2 processes were still running 100ms later"));
}

// Process 1 fails while process 0 has a hold.
Launched LaunchHolder(absl::Duration max_hold) {
  const std::string flag = ::testing::TempDir() + "/holds";
  std::remove(flag.c_str());
  LaunchOptions options = Shell(
      2, absl::StrCat("if [ $RANK = 1 ]; then while [ ! -e ", flag,
                      " ]; do sleep 0.01; done; exit 7; fi; echo 1 >> /dev/fd/$DPIPE_HOLD_FD; "
                      "touch ",
                      flag,
                      "; sleep 1; echo it is written; "
                      "echo 0 >> /dev/fd/$DPIPE_HOLD_FD; exec sleep 1000"));
  options.grace = absl::Milliseconds(100);
  options.max_hold = max_hold;
  return Launch(options);
}

TEST(LocalLauncherTest, WaitsForHold) {
  const Launched launched = LaunchHolder(absl::Minutes(10));
  EXPECT_EQ(launched.exit_code, 7);
  EXPECT_THAT(launched.out, HasSubstr("[0] it is written\n"));
  EXPECT_THAT(launched.err, AllOf(HasSubstr("process 0 is still writing; waiting up to 10m"),
                                  HasSubstr("1 processes were still running 100ms later")));
}

TEST(LocalLauncherTest, KillsAfterMaxHold) {
  const Launched launched = LaunchHolder(absl::Milliseconds(1));
  EXPECT_EQ(launched.exit_code, 7);
  EXPECT_EQ(launched.out, "");
  EXPECT_THAT(launched.err, HasSubstr("1 processes were still running 100ms later"));
}

// The launcher's parent may ignore SIGCHLD, and children inherit that. Then the system discards
// exit codes.
TEST(LocalLauncherTest, ExitCodesCountIfTheParentIgnoresItsChildren) {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const Launched launched = Launch(Shell(2, "exit $((RANK * 7))"));
  EXPECT_EQ(std::signal(SIGCHLD, before), SIG_IGN) << "the launcher has left it as it was";
  EXPECT_EQ(launched.exit_code, 7) << launched.err;
}

// Starts a launcher in another process. Its processes write their ids to FOLDER/N.
pid_t ForkLauncher(int num_processes, const std::string& folder, const std::string& script) {
  mkdir(folder.c_str(), 0700);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const auto exit_code = LaunchLocalProcesses(Shell(
      num_processes,
      absl::StrCat(script, "; echo $$ > ", folder, "/$RANK.new; mv ", folder, "/$RANK.new ", folder,
                   "/$RANK; while :; do sleep 0.01; "
                   "done")));
  _exit(exit_code.value_or(99));
}

pid_t AwaitPid(const std::string& path) {
  EXPECT_TRUE(WaitUntil([&] { return access(path.c_str(), F_OK) == 0; })) << path;
  return std::atoi(ReadAll(path).c_str());
}

TEST(LocalLauncherTest, ASignalReachesAll) {
  const std::string folder = ::testing::TempDir() + "/signalled";
  const pid_t launcher = ForkLauncher(2, folder, "trap 'exit 5' TERM");
  for (int i : {0, 1}) AwaitPid(absl::StrCat(folder, "/", i));
  kill(launcher, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(launcher, &status, 0), launcher);
  EXPECT_EQ(WEXITSTATUS(status), 5);
}

// As //tools:train does after saving: an exit code, but no failure.
TEST(LocalLauncherTest, EndingBecauseOfASignalIsNoFailure) {
  const std::string folder = ::testing::TempDir() + "/hung_up";
  testing::internal::CaptureStderr();
  const pid_t launcher = ForkLauncher(2, folder, "trap \"exit $((129 - 129 * RANK))\" HUP");
  for (int i : {0, 1}) AwaitPid(absl::StrCat(folder, "/", i));
  kill(launcher, SIGHUP);
  int status = 0;
  ASSERT_EQ(waitpid(launcher, &status, 0), launcher);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGHUP);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(LocalLauncherTest, NoneOutlivesALauncherThatIsKilled) {
  const std::string folder = ::testing::TempDir() + "/killed";
  const pid_t launcher = ForkLauncher(2, folder, "true");
  const pid_t first = AwaitPid(folder + "/0"), second = AwaitPid(folder + "/1");
  kill(launcher, SIGKILL);
  waitpid(launcher, nullptr, 0);
  for (pid_t pid : {first, second}) {
    // Gone, or a zombie that its new parent has not reaped yet.
    EXPECT_GT(pid, 0);
    EXPECT_TRUE(WaitUntil([&] {
      return kill(pid, 0) != 0 ||
             ReadAll(absl::StrCat("/proc/", pid, "/stat")).find(") Z") != std::string::npos;
    })) << "process "
        << pid << " is still there";
  }
}

TEST(LocalLauncherTest, NothingToStartIsRefused) {
  LaunchOptions options;
  options.num_processes = 0;
  EXPECT_EQ(LaunchLocalProcesses(options).status().message(),
            "requested 0 processes; at least 1 is needed");
}

}  // namespace
}  // namespace dpipe
