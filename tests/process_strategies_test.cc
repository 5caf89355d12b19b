// Runs process_strategies.cc without the shapes that strategies' own searches choose.
#include <string>

#include "baselines/registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProcessStrategiesTest, EveryStrategyOnProcessesComputesWhatOneDeviceDoes) {
  const auto run = testlib::RunProgram(
      "tests/process_strategies",
      {"--processes=2,4,8", "--search=false", "--data=" + ::testing::TempDir() + "/pictures"},
      /*deadline_s=*/280);
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, Not(HasSubstr("WRONG")));
  for (const std::string& strategy : ExactStrategyNames()) {
    EXPECT_THAT(run.out, HasSubstr("[0] " + strategy));
  }
  for (const char* line : {"2 processes: done", "4 processes: done", "8 processes: done"}) {
    EXPECT_THAT(run.out, HasSubstr(line));
  }
}

// One strategy of each kind: sums of gradients, sharded weights, pipelines with frozen work first,
// in bubbles and from the cache, and divided backward passes.
TEST(ProcessStrategiesTest, TinyFluxIsTrainedAsByOneDevice) {
  const auto run =
      testlib::RunProgram("tests/process_strategies",
                          {"--model=tiny_flux", "--processes=2", "--search=false",
                           "--strategies=data_parallel,zero3,1f1b,diffusionpipe,zb-v,offline_cache",
                           "--data=" + ::testing::TempDir() + "/pictures"},
                          /*deadline_s=*/120);
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.out, Not(HasSubstr("WRONG")));
  EXPECT_THAT(run.out, HasSubstr("[0] zb-v"));
  EXPECT_THAT(run.out, HasSubstr("2 processes: done"));
}

}  // namespace
}  // namespace dpipe
