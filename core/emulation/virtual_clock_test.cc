#include "core/emulation/virtual_clock.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

// Runs body(rank) on one thread per rank.
void RunRanks(VirtualClock* clock, int num_ranks, const std::function<void(int)>& body) {
  clock->StartRun();
  std::vector<std::thread> threads;
  for (int r = 0; r < num_ranks; ++r) {
    threads.emplace_back([clock, &body, r] {
      clock->Enter(r);
      body(r);
      clock->Leave(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(VirtualClockTest, RanksComputeAtOnceHoweverManyThereAre) {
  constexpr int kRanks = 64;
  VirtualClock clock(kRanks, {});
  std::vector<Nanos> ends(kRanks);
  RunRanks(&clock, kRanks, [&](int rank) {
    for (int i = 0; i < 20; ++i) clock.SleepUntil(rank, clock.Now(rank) + 1000 + rank);
    ends[rank] = clock.Now(rank);
  });
  for (int r = 0; r < kRanks; ++r) EXPECT_EQ(ends[r], 20 * (1000 + r));
}

// In order of virtual time, for any order in which the host runs the threads.
TEST(VirtualClockTest, EarlierRanksContinueFirst) {
  constexpr int kRanks = 8;
  VirtualClock clock(kRanks, {});
  std::vector<int> order;
  RunRanks(&clock, kRanks, [&](int rank) {
    clock.SleepUntil(rank, 1000 * (kRanks - rank));
    absl::MutexLock lock(&clock.mutex());
    order.push_back(rank);
  });
  EXPECT_EQ(order, (std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0}));
}

TEST(VirtualClockTest, WokenRankContinuesAtItsDueTime) {
  VirtualClock clock(2, {});
  Nanos woken = 0;
  RunRanks(&clock, 2, [&](int rank) {
    if (rank == 0) {
      absl::MutexLock lock(&clock.mutex());
      EXPECT_TRUE(clock.Park(0));
      woken = clock.Now(0);
    } else {
      clock.SleepUntil(1, 500);
      absl::MutexLock lock(&clock.mutex());
      clock.Wake(0, 1200);
    }
  });
  EXPECT_EQ(woken, 1200);
}

// The error comes at once, without a deadline.
TEST(VirtualClockTest, DetectsDeadlock) {
  constexpr int kRanks = 3;
  VirtualClock clock(kRanks, {});
  std::atomic<int> told{0};
  RunRanks(&clock, kRanks, [&](int rank) {
    if (rank == 2) return;  // leaves
    absl::MutexLock lock(&clock.mutex());
    if (!clock.Park(rank)) ++told;
  });
  EXPECT_EQ(told, 2);
}

TEST(VirtualClockTest, ContinuesAfterPreviousRun) {
  VirtualClock clock(2, {});
  const auto sleep = [&](int rank) { clock.SleepUntil(rank, clock.Now(rank) + 100); };
  RunRanks(&clock, 2, sleep);
  RunRanks(&clock, 2, sleep);
  EXPECT_EQ(clock.Now(0), 200);
}

// At least the scaled length of the waits; any excess depends on the host.
TEST(VirtualClockTest, PacedWaitsTakeRealTime) {
  VirtualClockOptions options;
  options.time_scale = 2;
  VirtualClock clock(2, options);
  const Nanos begin = MonotonicNow();
  RunRanks(&clock, 2, [&](int rank) {
    for (int i = 0; i < 5; ++i) clock.SleepUntil(rank, clock.Now(rank) + kNanosPerMilli);
  });
  EXPECT_GE(MonotonicNow() - begin, 10 * kNanosPerMilli);
  EXPECT_EQ(clock.Now(0), 5 * kNanosPerMilli);
  EXPECT_GE(clock.total_lateness_ns(), 0);
}

TEST(VirtualClockTest, HostTimeCountsIfRequestedExceptDuringWaits) {
  VirtualClockOptions options;
  options.charge_host_time = true;
  VirtualClock clock(1, options);
  const auto burn = [] {
    volatile double sum = 0;
    for (int i = 0; i < 200000; ++i) sum = sum + i;
  };
  RunRanks(&clock, 1, [&](int rank) {
    const Nanos begin = clock.Now(rank);
    burn();
    const Nanos between = clock.Now(rank);
    EXPECT_GT(between, begin);
    burn();  // part of the wait's time
    clock.SleepUntil(rank, between + 1000 * kNanosPerSecond);
    EXPECT_LT(clock.Now(rank), between + 1000 * kNanosPerSecond + kNanosPerMilli);
  });
}

}  // namespace
}  // namespace dpipe
