#include "core/schedule/builders/pair_budget.h"

#include <vector>

#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(PairBudgetTest, KeepsRoomForLastStageOfV) {
  // Two pairs per micro-batch, room for three: micro-batch 1 may add one, and micro-batch 2 may add
  // none until micro-batch 0 has finished.
  PairBudget room(3);
  for (int m = 0; m < 3; ++m) {
    EXPECT_EQ(room.CanAdd(0, m), m < 2);
    room.Enter(0, m, 2);
    if (m < 2) room.Add(0, m);
  }
  EXPECT_TRUE(room.CanAdd(0, 0));
  EXPECT_FALSE(room.CanAdd(0, 1));  // the last free place is reserved for micro-batch 0
  EXPECT_FALSE(room.CanAdd(0, 2));
  room.Add(0, 0);
  room.Release(0, 0);
  EXPECT_TRUE(room.CanAdd(0, 1));
  room.Release(0, 0);
  EXPECT_EQ(room.kept(), 1);
  EXPECT_TRUE(room.CanAdd(0, 1));
  EXPECT_TRUE(room.CanAdd(0, 2));
}

TEST(PairBudgetTest, NoLimitAdmitsAll) {
  PairBudget room;
  for (int m = 0; m < 100; ++m) {
    room.Enter(0, m, 1);
    EXPECT_TRUE(room.CanAdd(0, m));
    room.Add(0, m);
  }
  EXPECT_EQ(room.kept(), 100);
}

struct MicroBatch {
  int kept = 0, to_come = 0;
};

// True if all can finish one after another in that order: the definition, simulated.
bool CanFinish(std::vector<MicroBatch> in_flight, int limit) {
  int kept = 0;
  for (const MicroBatch& m : in_flight) kept += m.kept;
  for (const MicroBatch& m : in_flight) {
    if (kept + m.to_come > limit) return false;
    kept -= m.kept;
  }
  return true;
}

TEST(PairBudgetTest, AdmitsExactlyPairsThatCanFinish) {
  for (int seed = 0; seed < 500; ++seed) {
    RandomStream stream(seed, 0, 0, RandomPurpose::kTest);
    const int limit = 3 + static_cast<int>(stream.NextBelow(6));
    PairBudget room(limit);
    std::vector<MicroBatch> all;  // finished ones keep nothing and add nothing
    for (int step = 0; step < 60; ++step) {
      if (all.empty() || stream.NextBelow(4) == 0) {
        const int pairs = 1 + static_cast<int>(stream.NextBelow(3));
        room.Enter(0, static_cast<int>(all.size()), pairs);
        all.push_back({0, pairs});
      }
      const int m = static_cast<int>(stream.NextBelow(static_cast<uint32_t>(all.size())));
      if (all[m].kept > 0 && stream.NextBelow(2) == 0) {
        room.Release(0, m);
        --all[m].kept;
      } else if (all[m].to_come > 0) {
        std::vector<MicroBatch> after = all;
        ++after[m].kept;
        --after[m].to_come;
        ASSERT_EQ(room.CanAdd(0, m), CanFinish(after, limit)) << "seed " << seed;
        if (!room.CanAdd(0, m)) continue;
        room.Add(0, m);
        all = after;
      }
    }
  }
}

// The oldest micro-batch can always continue, in any order of requests.
TEST(PairBudgetTest, OldestIsAlwaysAdmitted) {
  for (int seed = 0; seed < 300; ++seed) {
    RandomStream stream(seed, 1, 0, RandomPurpose::kTest);
    const int limit = 3 + static_cast<int>(stream.NextBelow(4));
    PairBudget room(limit);
    std::vector<MicroBatch> all;
    for (int m = 0; m < 10; ++m) {
      const int pairs = 1 + static_cast<int>(stream.NextBelow(3));
      room.Enter(0, m, pairs);
      all.push_back({0, pairs});
    }
    for (size_t oldest = 0; oldest < all.size();) {
      const int m = static_cast<int>(stream.NextBelow(static_cast<uint32_t>(all.size())));
      if (all[m].to_come > 0 && room.CanAdd(0, m)) {
        room.Add(0, m);
        ++all[m].kept;
        --all[m].to_come;
      }
      if (all[oldest].to_come > 0) {
        ASSERT_TRUE(room.CanAdd(0, static_cast<int>(oldest))) << "seed " << seed;
        continue;
      }
      for (; all[oldest].kept > 0; --all[oldest].kept) {
        room.Release(0, static_cast<int>(oldest));
      }
      ++oldest;
    }
    EXPECT_EQ(room.kept(), 0);
  }
}

}  // namespace
}  // namespace dpipe
