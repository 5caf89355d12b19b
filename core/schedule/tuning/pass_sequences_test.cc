#include "core/schedule/tuning/pass_sequences.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/schedule/testing/named_schedule.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

PassGraphCosts RandomTimes(const Schedule& schedule, RandomStream& stream) {
  const auto draw = [&] { return static_cast<Nanos>(1 + stream.NextBelow(100)); };
  PassGraphCosts times;
  for (int s = 0; s < schedule.num_stages(); ++s) {
    times.costs.push_back({draw(), draw(), draw()});
    times.forward_delay_ns.push_back(draw() / 4);
    times.gradient_delay_ns.push_back(draw() / 4);
    times.stage_limits.push_back(2 + static_cast<int>(stream.NextBelow(4)));
  }
  for (int d = 0; d < schedule.num_devices(); ++d) times.ready_ns.push_back(draw());
  return times;
}

std::vector<double> StartsOf(const PassGraph& graph, const PassSequences& sequences) {
  std::vector<double> starts;
  for (int op = 0; op < graph.num_ops(); ++op) {
    starts.push_back(static_cast<double>(sequences.StartOf(op)));
  }
  return starts;
}

// On every pass of a longest path, end + rest - duration is the makespan.
TEST(PassSequencesTest, TwoDevicesByHand) {
  const Schedule schedule = NamedSchedule("gpipe", 2, 1);
  PassGraphCosts times;
  times.costs = {{3, 2, 1}, {5, 4, 2}};
  times.forward_delay_ns = {10, 0};
  times.gradient_delay_ns = {0, 20};
  times.ready_ns = {7, 0};
  const PassGraph graph(schedule, times);
  const PassSequences sequences(graph, graph.TopologicalOrderBy(graph.OriginalStartTimes()));
  // ready at 7, forward 3, message 10, forward 5, backward 6, message 20, backward 3.
  EXPECT_EQ(sequences.makespan_ns(), 7 + 3 + 10 + 5 + 6 + 20 + 3);
  for (int op = 0; op < graph.num_ops(); ++op) {
    EXPECT_EQ(sequences.StartOf(op) + sequences.RestOf(op), sequences.makespan_ns());
    if (graph.op(op).device == 0 && graph.op(op).slot.pass == Pass::kForward) {
      EXPECT_EQ(sequences.StartOf(op), 7);
      EXPECT_EQ(sequences.RestOf(op), 3 + 10 + 5 + 6 + 20 + 3);
    }
  }
}

// After each move, all numbers equal those of newly built sequences. No path is longer than the
// estimate or the previous longest path.
TEST(PassSequencesTest, RandomMovesKeepNumbersConsistent) {
  RandomStream stream(51, 0, 0, RandomPurpose::kTest);
  const std::vector<std::string> names = {"gpipe", "zb-h1", "zb-v", "cascaded-zb", "chimera"};
  int moved = 0;
  for (int trial = 0; trial < 50; ++trial) {
    const Schedule schedule = NamedSchedule(names[trial % names.size()], 4, 8);
    const PassGraph graph(schedule, RandomTimes(schedule, stream));
    PassSequences sequences(graph, graph.TopologicalOrderBy(graph.OriginalStartTimes()));
    for (int step = 0; step < 200; ++step) {
      int op = static_cast<int>(stream.NextBelow(graph.num_ops())), other = op;
      const bool behind = stream.NextBelow(2) == 0;
      for (int far = 1 + static_cast<int>(stream.NextBelow(4)); far > 0; --far) {
        const int next = behind ? sequences.Next(other) : sequences.Previous(other);
        if (next != PassSequences::kNone) other = next;
      }
      if (other == op) continue;
      const bool can = behind ? sequences.CanGoBehind(op, other) : sequences.CanGoBefore(op, other);
      if (!can) continue;
      const Nanos estimate =
          behind ? sequences.EstimateAfter(op, other) : sequences.EstimateBefore(op, other);
      ASSERT_LE(behind ? sequences.BoundAfter(op, other) : sequences.BoundBefore(op, other),
                estimate);
      const Nanos before = sequences.makespan_ns();
      behind ? sequences.MoveAfter(op, other) : sequences.MoveBefore(op, other);
      ++moved;
      ASSERT_EQ(behind ? sequences.Previous(op) : sequences.Next(op), other);
      ASSERT_LE(sequences.makespan_ns(), std::max(estimate, before));
      const PassSequences anew(graph, graph.TopologicalOrderBy(StartsOf(graph, sequences)));
      for (int i = 0; i < graph.num_ops(); ++i) {
        ASSERT_EQ(sequences.EndOf(i), anew.EndOf(i)) << i;
        ASSERT_EQ(sequences.RestOf(i), anew.RestOf(i)) << i;
        ASSERT_EQ(sequences.Previous(i), anew.Previous(i)) << i;
      }
    }
  }
  EXPECT_GT(moved, 1000);
}

// A move that would close a cycle is never reported as possible.
TEST(PassSequencesTest, NoPassMovesBehindPassesThatWaitForIt) {
  RandomStream stream(52, 0, 0, RandomPurpose::kTest);
  for (int trial = 0; trial < 20; ++trial) {
    const Schedule schedule = NamedSchedule(trial % 2 == 0 ? "zb-v" : "cascaded-zb", 3, 4);
    const PassGraph graph(schedule, RandomTimes(schedule, stream));
    const PassSequences sequences(graph, graph.TopologicalOrderBy(graph.OriginalStartTimes()));
    for (int op = 0; op < graph.num_ops(); ++op) {
      for (const PassGraph::Arc& arc : graph.After(op)) {
        for (int i = sequences.Next(op); i != PassSequences::kNone; i = sequences.Next(i)) {
          // `i` is at or after a pass that waits for `op`.
          bool follows = i == arc.op;
          for (int j = i; j != PassSequences::kNone && !follows; j = sequences.Previous(j)) {
            follows = j == arc.op;
          }
          EXPECT_FALSE(follows && sequences.CanGoBehind(op, i));
        }
      }
    }
  }
}

}  // namespace
}  // namespace dpipe
