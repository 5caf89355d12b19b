// The experiment of kill_resume.cc, short.
#include "tests/testlib/kill_resume.h"

#include "gtest/gtest.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

testlib::KillResumeOptions ShortRuns() {
  const std::string images = ::testing::TempDir() + "/images";
  const auto made = testlib::RunProgram("data/make_dataset", {"--out=" + images, "--count=32"});
  EXPECT_EQ(made.exit_code, 0) << made.err;
  testlib::KillResumeOptions options;
  options.train_program = "tools/train";
  options.folder = ::testing::TempDir() + "/kill_resume";
  options.num_kills = 4;
  options.max_life_ms = 1500;
  options.flags = {"--data=" + images,     "--devices=2",      "--steps=24",
                   "--checkpoint_every=3", "--global_batch=4", "--micro_batches=2",
                   "--frozen_quantum=2",   "--warmup=5",       "--minutes=0",
                   "--save_every=10",      "--samples=false",  "--output.tensorboard=false"};
  return options;
}

TEST(KillResumeTest, WhatIsLearnedIsTheSame) {
  const auto report = testlib::KillAndResume(ShortRuns());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->kills, 4);
  EXPECT_EQ(report->steps, 24);
  EXPECT_GE(report->runs, 1);
}

// Which has two plans.
TEST(KillResumeTest, SoItIsWithSelfConditioning) {
  testlib::KillResumeOptions options = ShortRuns();
  options.num_kills = 2;
  options.flags.push_back("--model=tiny_cdm");
  options.flags.push_back("--objective.self_conditioning=0.5");
  const auto report = testlib::KillAndResume(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->kills, 2);
  EXPECT_EQ(report->steps, 24);
}

}  // namespace
}  // namespace dpipe
