#include "core/comm/rendezvous/process_group.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
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

// Threads as if they were processes, on hosts of these names.
void RunOnHosts(const std::vector<std::string>& hosts,
                const std::function<void(ProcessGroup*)>& body) {
  auto listener = ListenTcp(0);
  ASSERT_TRUE(listener.ok()) << listener.status();
  JobAddress address;
  address.host = "localhost";
  address.port = listener->port();
  address.num_processes = static_cast<int>(hosts.size());
  const int fd = listener->Release();
  std::vector<std::thread> threads;
  for (int i = 0; i < address.num_processes; ++i) {
    address.process = i;
    const auto is_here = [&](const std::string& host) { return host == hosts[i]; };
    address.num_local = static_cast<int>(std::count_if(hosts.begin(), hosts.end(), is_here));
    address.local_process =
        static_cast<int>(std::count_if(hosts.begin(), hosts.begin() + i, is_here));
    threads.emplace_back([&body, &hosts, address, fd] {
      ProcessGroupOptions options;
      options.host_name = hosts[address.process];
      options.listener_fd = address.process == 0 ? fd : -1;
      auto group = ProcessGroup::Join(address, options);
      ASSERT_TRUE(group.ok()) << group.status();
      body(group->get());
    });
  }
  for (auto& thread : threads) thread.join();
}

// Of one host.
void RunProcesses(int count, const std::function<void(ProcessGroup*)>& body) {
  RunOnHosts(std::vector<std::string>(count, "node1"), body);
}

TEST(ProcessGroupTest, AllGetWhatTheLeaderHas) {
  RunProcesses(3, [](ProcessGroup* group) {
    for (int round = 0; round < 3; ++round) {
      const auto text =
          group->FromLeader("a word", absl::StrCat("round ", round, " of ", group->process()));
      ASSERT_TRUE(text.ok()) << text.status();
      EXPECT_EQ(*text, absl::StrCat("round ", round, " of 0"));
    }
  });
}

// The first of two on each host.
void ExpectFirstsFirst(const std::vector<std::string>& hosts) {
  std::map<std::string, std::atomic<int>> done;
  for (const std::string& host : hosts) done[host] = 0;
  RunOnHosts(hosts, [&](ProcessGroup* group) {
    const std::string& host = hosts[group->process()];
    const absl::Status status = group->FirstOnHostFirst("a file", [&] {
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
TEST(ProcessGroupTest, TheFirstOfAHostIsFirstWhereHostsTakeTurns) {
  ExpectFirstsFirst({"node1", "node2", "node1", "node2"});
}

// Others would wait for ever for who has failed; its word ends their wait.
TEST(ProcessGroupTest, AFailureEndsTheWaitForTheFirst) {
  RunProcesses(2, [](ProcessGroup* group) {
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
  RunProcesses(1, [](ProcessGroup* group) {
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
  RunProcesses(2, [](ProcessGroup* group) {
    const EndWithJob end(&group->store());
    if (group->is_leader()) group->store().Fail(absl::UnavailableError("rank 7 has died"));
    EXPECT_TRUE(group->store().AwaitFailure(absl::Seconds(60)));
  });
}

}  // namespace
}  // namespace dpipe
