#include "core/comm/rendezvous/process_group.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/comm/rendezvous/end_with_job.h"
#include "core/comm/rendezvous/socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

// Threads as if they were `count` processes, `per_host` on each host.
void RunProcesses(int count, int per_host, const std::function<void(ProcessGroup*)>& body) {
  auto listener = ListenTcp(0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  JobAddress address;
  address.host = "localhost";
  address.port = listener->port();
  address.num_processes = count;
  address.num_local = per_host;
  const int fd = listener->Release();
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    address.process = i;
    address.local_process = i % per_host;
    threads.emplace_back([&body, address, fd] {
      ProcessGroupOptions options;
      options.listener_fd = address.process == 0 ? fd : -1;
      auto group = ProcessGroup::Join(address, options);
      ASSERT_TRUE(group.ok()) << group.status();
      body(group->get());
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(ProcessGroupTest, AllGetWhatTheLeaderHas) {
  RunProcesses(3, 3, [](ProcessGroup* group) {
    for (int round = 0; round < 3; ++round) {
      const auto text =
          group->FromLeader("a word", absl::StrCat("round ", round, " of ", group->process()));
      ASSERT_TRUE(text.ok()) << text.status();
      EXPECT_EQ(*text, absl::StrCat("round ", round, " of 0"));
    }
  });
}

TEST(ProcessGroupTest, TheFirstOfAHostIsFirst) {
  std::atomic<int> done[2] = {{0}, {0}};
  RunProcesses(4, 2, [&](ProcessGroup* group) {
    const int host = group->process() / 2;
    const absl::Status status = group->FirstOnHostFirst("a file", [&] {
      EXPECT_EQ(done[host]++, group->process() % 2);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  });
  EXPECT_EQ(done[0], 2);
  EXPECT_EQ(done[1], 2);
}

// Others would wait for ever for who has failed; its word ends their wait.
TEST(ProcessGroupTest, AFailureEndsTheWaitForTheFirst) {
  RunProcesses(2, 2, [](ProcessGroup* group) {
    const absl::Status status = group->FirstOnHostFirst(
        "the data set", [] { return absl::DataLossError("the disk is gone"); });
    EXPECT_THAT(std::string(status.message()), HasSubstr("the disk is gone"));
    if (group->is_leader()) {
      group->store().Fail(status);
    } else {
      EXPECT_THAT(std::string(status.message()), HasSubstr("for the data set by rank 0"));
    }
  });
}

// In a process of its own, alone in its job.
[[noreturn]] void FailAndGoOn() {
  RunProcesses(1, 1, [](ProcessGroup* group) {
    const EndWithJob end(&group->store(), absl::Milliseconds(200));
    group->store().Fail(absl::UnavailableError("rank 7 has died"));
    while (true) absl::SleepFor(absl::Seconds(1));  // nobody is waited for
  });
  std::abort();
}

TEST(EndWithJobDeathTest, WhoDoesNotNoticeIsEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(FailAndGoOn(), ::testing::ExitedWithCode(1),
              "rank 0 .*: rank 7 has died; this process has not ended 200ms after that");
}

TEST(EndWithJobTest, WhoEndsInTimeIsLeftAlone) {
  RunProcesses(2, 2, [](ProcessGroup* group) {
    const EndWithJob end(&group->store());
    if (group->is_leader()) group->store().Fail(absl::UnavailableError("rank 7 has died"));
    EXPECT_TRUE(group->store().AwaitFailure(absl::Seconds(60)));
  });
}

}  // namespace
}  // namespace dpipe
