#include "core/comm/collective_thread.h"

#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(CollectiveThreadTest, RunsInStartOrder) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    CollectiveThread thread;
    std::vector<int> order;
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (int i = 0; i < 5; ++i) {
      pending.push_back(thread.Start([&order, i] {
        order.push_back(i);
        return absl::OkStatus();
      }));
    }
    EXPECT_TRUE(pending[4 - repeat % 5]->Wait().ok());
    for (int i = 0; i < 5; ++i) {
      if (i == 4 - repeat % 5) continue;
      EXPECT_TRUE(pending[i]->Wait().ok());
    }
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
    for (int i = 1; i < 5; ++i) EXPECT_LE(pending[i - 1]->end_ns(), pending[i]->end_ns());
  }
}

TEST(CollectiveThreadTest, RunsWithoutBeingWaitedFor) {
  CollectiveThread thread;
  absl::Notification ran;
  const auto pending = thread.Start([&ran] {
    ran.Notify();
    return absl::OkStatus();
  });
  ran.WaitForNotification();
  EXPECT_TRUE(pending->Wait().ok());
}

TEST(CollectiveThreadTest, ErrorsReachTheirOwnWait) {
  CollectiveThread thread;
  const auto bad = thread.Start([] { return absl::DataLossError("gone"); });
  const auto good = thread.Start([] { return absl::OkStatus(); });
  EXPECT_TRUE(good->Wait().ok());
  EXPECT_EQ(bad->Wait().message(), "gone");
}

TEST(CollectiveThreadTest, ReleasesTensorsAtTheEnd) {
  CollectiveThread thread;
  auto held = std::make_shared<int>(1);
  const auto pending = thread.Start([held] { return absl::OkStatus(); });
  EXPECT_TRUE(pending->Wait().ok());
  EXPECT_EQ(held.use_count(), 1);
}

// The first is in progress and blocks; the second has not begun when its waiter arrives.
TEST(CollectiveThreadTest, WaitingForALaterOneWaitsForTheCurrentOne) {
  CollectiveThread thread;
  absl::Notification begun, go_on;
  const auto first = thread.Start([&] {
    begun.Notify();
    go_on.WaitForNotification();
    return absl::OkStatus();
  });
  bool ran = false;
  const auto second = thread.Start([&ran] {
    ran = true;
    return absl::OkStatus();
  });
  begun.WaitForNotification();
  EXPECT_FALSE(ran);
  std::thread releaser([&go_on] { go_on.Notify(); });
  EXPECT_TRUE(second->Wait().ok());
  EXPECT_TRUE(ran);
  EXPECT_TRUE(first->Wait().ok());
  EXPECT_LE(first->end_ns(), second->end_ns());
  releaser.join();
}

}  // namespace
}  // namespace dpipe
