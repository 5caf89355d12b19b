#include "tests/testlib/session_conformance.h"

namespace dpipe::testlib {
namespace {

// Bit-identical for every strategy, because messages and sums are the same.
TEST_P(SessionConformanceTest, ProcessesComputeWhatThreadsDo) {
  const auto& [run, strategy, shape] = GetParam();
  const auto plan = PlanFor(strategy, shape.processes * shape.ranks);
  ASSERT_TRUE(plan.ok()) << plan.status();
  const auto expected = RunAlone(*plan);
  ASSERT_TRUE(expected.ok()) << expected.status();
  SessionOutcome actual;
  for (const absl::Status& status : run(*this, *plan, shape, &actual)) {
    ASSERT_TRUE(status.ok()) << status;
  }
  ExpectSame(*expected, actual);
  EXPECT_EQ(actual.peaks.size(), plan->num_devices());
}

}  // namespace
}  // namespace dpipe::testlib
