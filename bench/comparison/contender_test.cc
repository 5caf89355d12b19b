#include "bench/comparison/contender.h"

#include "gtest/gtest.h"

namespace dpipe::bench {

namespace {

Trace Numbered(int number) {
  Trace trace;
  trace.add_step_start_ns(number);
  return trace;
}

TEST(TypicalTurnTest, TheNearestIsTaken) {
  TypicalTurn turns;
  int number = 0;
  for (const double step_ms : {160, 161, 400, 163, 390}) turns.Add(step_ms, Numbered(number++));
  EXPECT_EQ(turns.Take(162.5).step_start_ns(0), 3);
}

// After a hundred turns, the last of them slow, one near the median is still kept.
TEST(TypicalTurnTest, OfManyTurnsThoseNearTheMedianAreKept) {
  TypicalTurn turns;
  for (int i = 0; i < 100; ++i) {
    const double step_ms = i % 3 == 0 || i > 90 ? 300 + i : 100 + i % 7;
    turns.Add(step_ms, Numbered(static_cast<int>(step_ms)));
  }
  const int taken = static_cast<int>(turns.Take(105).step_start_ns(0));
  EXPECT_GE(taken, 103);
  EXPECT_LE(taken, 106);
}

TEST(TypicalTurnTest, NoTurnHasNoTrace) {
  EXPECT_EQ(TypicalTurn().Take(1).step_start_ns_size(), 0);
}

}  // namespace

}  // namespace dpipe::bench
