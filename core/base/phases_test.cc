#include "core/base/phases.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

// One test, because recording is the process's and is never switched off.
TEST(PhasesTest, RecordsFromTheCallOnAndAddsUpByName) {
  { const Phase before("before"); }
  RecordPhases();
  {
    const Phase outer("outer");
    for (int i = 0; i < 3; ++i) const Phase inner("inner");
    std::thread([] { const Phase elsewhere("elsewhere"); }).join();
  }
  { const Phase inner("inner"); }
  const std::vector<PhaseTotal> phases = RecordedPhases();
  ASSERT_EQ(phases.size(), 3);
  EXPECT_EQ(phases[0].name, "outer");
  EXPECT_EQ(phases[0].depth, 0);
  EXPECT_EQ(phases[0].count, 1);
  EXPECT_EQ(phases[0].total_ns, phases[0].last_ns - phases[0].first_ns);
  EXPECT_EQ(phases[1].name, "inner");
  EXPECT_EQ(phases[1].depth, 1);
  EXPECT_EQ(phases[1].count, 4);
  EXPECT_LE(phases[1].total_ns, phases[1].last_ns - phases[1].first_ns);
  EXPECT_GE(phases[1].last_ns, phases[0].last_ns);
  EXPECT_EQ(phases[2].name, "elsewhere");
  EXPECT_EQ(phases[2].depth, 0) << "depth is counted on the phase's own thread";
  EXPECT_GE(phases[2].first_ns, phases[0].first_ns);
  EXPECT_LE(phases[2].last_ns, phases[0].last_ns);
}

TEST(PhasesTest, TextHasTimesInSecondsAndIndentsByDepth) {
  PhaseTotal phase;
  phase.name = "plans";
  phase.depth = 1;
  phase.count = 12;
  phase.first_ns = 1'500'000'000;
  phase.last_ns = 4'250'000'000;
  phase.total_ns = 2'000'000'000;
  EXPECT_THAT(PhasesText({phase}),
              HasSubstr("2.00 s     1.50 s  to     4.25 s     12 x    plans\n"));
}

}  // namespace
}  // namespace dpipe
