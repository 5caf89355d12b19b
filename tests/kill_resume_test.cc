// The experiment of kill_resume.cc, short.
#include "tests/testlib/kill_resume.h"

#include "gtest/gtest.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

TEST(KillResumeTest, WhatIsLearnedIsTheSame) {
  const std::string folder = ::testing::TempDir() + "/kill_resume";
  const std::string images = ::testing::TempDir() + "/images";
  const auto made = testlib::RunProgram("data/make_dataset", {"--out=" + images, "--count=32"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  testlib::KillResumeOptions options;
  options.train_program = "tools/train";
  options.folder = folder;
  options.num_kills = 4;
  options.max_life_ms = 1500;
  options.flags = {"--data=" + images,     "--devices=2",      "--steps=24",
                   "--checkpoint_every=3", "--global_batch=4", "--micro_batches=2",
                   "--frozen_quantum=2",   "--warmup=5",       "--minutes=0",
                   "--save_every=10",      "--samples=false",  "--output.tensorboard=false"};
  const auto report = testlib::KillAndResume(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->kills, 4);
  EXPECT_EQ(report->steps, 24);
  EXPECT_GE(report->runs, 1);
}

}  // namespace
}  // namespace dpipe
