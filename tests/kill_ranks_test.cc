// A short run of the experiment in kill_ranks.cc.
#include "tests/testlib/kill_ranks.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

testlib::KillRanksOptions Options(const std::string& name) {
  const std::string images = ::testing::TempDir() + "/images";
  const auto made = testlib::RunProgram("data/make_dataset", {"--out=" + images, "--count=32"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  testlib::KillRanksOptions options;
  options.train_program = "tools/train";
  options.folder = ::testing::TempDir() + "/" + name;
  options.flags = {"--backend=cpu",
                   "--data=" + images,
                   "--strategy=1f1b",
                   "--global_batch=6",
                   "--micro_batches=3",
                   "--frozen_quantum=1",
                   "--steps=100000",
                   "--checkpoint_every=5",
                   "--minutes=0",
                   "--samples=false",
                   "--job.silence=4",
                   "--job.join=8",
                   "--output.tensorboard=false"};
  // Longer, because other tests run at the same time.
  options.death_deadline_ms = 40000;
  options.silence_deadline_ms = 50000;
  return options;
}

TEST(KillRanksTest, DeadRankEndsAllOthersAndIsNamed) {
  testlib::KillRanksOptions options = Options("killed");
  options.num_kills = 5;
  options.max_life_ms = 8000;
  options.num_while_training = 2;
  const auto report = testlib::KillRanks(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->kills, 5);
  EXPECT_GE(report->while_training, 1);
}

TEST(KillRanksTest, FrozenRankEndsAllOthersAndIsNamed) {
  testlib::KillRanksOptions options = Options("frozen");
  options.num_processes = 2;
  options.num_kills = 2;
  options.freeze_every = 1;
  options.num_while_training = 1;
  const auto report = testlib::KillRanks(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->freezes, 2);
  EXPECT_GE(report->while_training, 1);
}

}  // namespace
}  // namespace dpipe
