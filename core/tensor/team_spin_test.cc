#include "core/tensor/team_spin.h"

#include <omp.h>
#include <sched.h>

#include <thread>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(SpinPolicyTest, HoldTimeDoublesIfContentionRecurs) {
  SpinPolicy policy;
  Nanos now = kNanosPerSecond;
  EXPECT_FALSE(policy.Update(now, 0.1));
  EXPECT_TRUE(policy.Update(now, 0.5));
  EXPECT_TRUE(policy.Update(now + SpinPolicy::kMinHold - 1, 0.0)) << "sleeping threads do not wait";
  now += SpinPolicy::kMinHold;
  EXPECT_FALSE(policy.Update(now, 0.0));
  now += SpinPolicy::kMinHold / 2;
  EXPECT_TRUE(policy.Update(now, 0.5)) << "the same program is still there";
  EXPECT_TRUE(policy.Update(now + 2 * SpinPolicy::kMinHold - 1, 0.0));
  now += 2 * SpinPolicy::kMinHold;
  EXPECT_FALSE(policy.Update(now, 0.0));
  now += 10 * SpinPolicy::kMinHold;
  EXPECT_TRUE(policy.Update(now, 0.5)) << "another one, later";
  EXPECT_FALSE(policy.Update(now + SpinPolicy::kMinHold, 0.0));
}

TEST(SpinPolicyTest, HoldTimeIsBounded) {
  SpinPolicy policy;
  Nanos now = kNanosPerSecond;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(policy.Update(now, 1.0));
    now += SpinPolicy::kMaxHold;
    ASSERT_FALSE(policy.Update(now, 0.0));
  }
}

// Two threads of a team on one core: each waits while the other runs.
TEST(TeamSpinTest, IsLimitedWhileThreadsWaitForTheirCore) {
  bool can_pin = true, was_limited = false;
  std::thread device([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    can_pin = sched_setaffinity(0, sizeof(set), &set) == 0;
    omp_set_num_threads(2);
    TeamSpin spin;
    const Nanos end = MonotonicNow() + 30 * kNanosPerSecond;
    while (!SpinningIsLimited() && MonotonicNow() < end) {
#pragma omp parallel
      {
        volatile int turns = 0;
        while (turns < 10'000'000) turns = turns + 1;
      }
      spin.Observe(MonotonicNow());
    }
    was_limited = SpinningIsLimited();
  });
  device.join();
  if (!can_pin) GTEST_SKIP() << "threads cannot be pinned";
  EXPECT_TRUE(was_limited);
  EXPECT_FALSE(SpinningIsLimited()) << "the team that wanted it is gone";
}

}  // namespace
}  // namespace dpipe
