#include "core/comm/rendezvous/process_group.h"

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/comm/rendezvous/launch/process_exit.h"
#include "core/comm/rendezvous/testing/local_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

void JoinAndRun(const std::vector<JobMember>& job, const std::function<void(ProcessGroup*)>& body) {
  RunAsThreads(job, [&](const JobMember& member) {
    const auto group = ProcessGroup::Join(member.address, member.options);
    ASSERT_TRUE(group.ok()) << group.status();
    body(group->get());
  });
}

TEST(ProcessGroupTest, BroadcastsFromLeader) {
  JoinAndRun(LocalJob(3), [](ProcessGroup* group) {
    for (int round = 0; round < 3; ++round) {
      const auto text =
          group->FromLeader("a word", absl::StrCat("round ", round, " of ", group->process()));
      ASSERT_TRUE(text.ok()) << text.status();
      EXPECT_EQ(*text, absl::StrCat("round ", round, " of 0"));
    }
  });
}

// `hosts` has two processes per host; expects the first one of each to run first.
void ExpectFirstsFirst(const std::vector<std::string>& hosts) {
  std::map<std::string, std::atomic<int>> done;
  for (const std::string& host : hosts) done[host] = 0;
  JoinAndRun(LocalJob(hosts), [&](ProcessGroup* group) {
    const std::string& host = hosts[group->process()];
    const absl::Status status = group->RunFirstOnHost("a file", [&] {
      EXPECT_EQ(done[host]++, group->address().local_process);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  });
  EXPECT_EQ(done.size(), 2);
  for (const auto& [host, count] : done) EXPECT_EQ(count, 2) << host;
}

TEST(ProcessGroupTest, TheFirstOfAHostIsFirst) {
  ExpectFirstsFirst({"node1", "node1", "node2", "node2"});
}

// As by srun -m cyclic, or mpirun --map-by node.
TEST(ProcessGroupTest, FirstOnHostWithRoundRobinPlacement) {
  ExpectFirstsFirst({"node1", "node2", "node1", "node2"});
}

// Other processes would wait forever for one that failed; its report ends their wait.
TEST(ProcessGroupTest, AFailureEndsTheWaitForTheFirst) {
  JoinAndRun(LocalJob(2), [](ProcessGroup* group) {
    const absl::Status status = group->RunFirstOnHost(
        "the data set", [] { return absl::DataLossError("the disk is gone"); });
    EXPECT_THAT(std::string(status.message()), HasSubstr("the disk is gone"));
    if (group->is_leader()) {
      group->store().Fail(status);
    } else {
      EXPECT_THAT(std::string(status.message()), HasSubstr("for the data set by rank 0"));
    }
  });
}

// Runs in another process, alone in its job.
[[noreturn]] void FailAndGoOn() {
  JoinAndRun(LocalJob(1), [](ProcessGroup* group) {
    const ExitWithJob end(&group->store(), absl::Milliseconds(200));
    group->store().Fail(absl::UnavailableError("rank 7 has died"));
    while (true) absl::SleepFor(absl::Seconds(1));  // waits for no other process
  });
  std::abort();
}

TEST(ExitWithJobDeathTest, EndsUnawareProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(FailAndGoOn(), ::testing::ExitedWithCode(1),
              "rank 0 .*: rank 7 has died; this process was still running 200ms later");
}

// Prints to standard error when a hold, which begins with the failure, has ended.
[[noreturn]] void FailAndHold(absl::Duration hold_for, absl::Duration max_hold) {
  JoinAndRun(LocalJob(1), [&](ProcessGroup* group) {
    const ExitWithJob end(&group->store(), absl::Milliseconds(100), max_hold);
    {
      const ExitHold hold, another;
      group->store().Fail(absl::UnavailableError("rank 7 has died"));
      absl::SleepFor(hold_for);  // many times the time to end
      std::fputs("the checkpoint is written\n", stderr);
    }
    while (true) absl::SleepFor(absl::Seconds(1));
  });
  std::abort();
}

TEST(ExitWithJobDeathTest, WaitsForHold) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(FailAndHold(absl::Seconds(1), absl::Minutes(10)), ::testing::ExitedWithCode(1),
              "the checkpoint is written\n.*rank 7 has died; this process was still running 100ms");
}

TEST(ExitWithJobDeathTest, EndsAfterMaxHold) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(FailAndHold(absl::Minutes(10), absl::Milliseconds(100)), ::testing::ExitedWithCode(1),
              "^rank 0 .*rank 7 has died; this process");
}

TEST(ExitWithJobTest, LeavesFinishedProcessAlone) {
  JoinAndRun(LocalJob(2), [](ProcessGroup* group) {
    const ExitWithJob end(&group->store());
    if (group->is_leader()) group->store().Fail(absl::UnavailableError("rank 7 has died"));
    EXPECT_TRUE(group->store().AwaitFailure(absl::Seconds(60)));
  });
}

}  // namespace
}  // namespace dpipe
