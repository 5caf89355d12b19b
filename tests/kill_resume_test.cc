// A short run of the experiment in kill_resume.cc.
#include "tests/testlib/kill_resume.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testlib/run_program.h"

namespace dpipe {
namespace {

// Runs the experiment with `more` flags, on images of this aspect.
void ExpectTheSame(const std::string& name, int num_kills, double max_aspect,
                   const std::vector<std::string>& more) {
  const std::string images = ::testing::TempDir() + "/images_" + name;
  const auto made = testlib::RunProgram(
      "data/make_dataset",
      {"--out=" + images, "--count=32", "--max_aspect=" + std::to_string(max_aspect)});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  testlib::KillResumeOptions options;
  options.train_program = "tools/train";
  options.folder = ::testing::TempDir() + "/kill_resume_" + name;
  options.num_kills = num_kills;
  options.max_life_ms = 1500;
  options.flags = {"--backend=cpu",
                   "--data=" + images,
                   "--devices=2",
                   "--steps=24",
                   "--checkpoint_every=3",
                   "--global_batch=4",
                   "--micro_batches=2",
                   "--frozen_quantum=2",
                   "--warmup=5",
                   "--minutes=0",
                   "--save_every=10",
                   "--samples=false",
                   "--output.tensorboard=false"};
  options.flags.insert(options.flags.end(), more.begin(), more.end());
  const auto report = testlib::KillAndResume(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->kills, num_kills);
  EXPECT_EQ(report->steps, 24);
  EXPECT_LT(report->before_a_step, num_kills) << "no kill interrupted training";
}

TEST(KillResumeTest, TrainsTheSameModel) {
  ExpectTheSame("squares", /*num_kills=*/4, /*max_aspect=*/1, {});
}

// Self-conditioning has two plans.
TEST(KillResumeTest, TrainsTheSameModelWithSelfConditioning) {
  ExpectTheSame("self_conditioned", /*num_kills=*/2, /*max_aspect=*/1,
                {"--model=tiny_cdm", "--objective.self_conditioning=0.5"});
}

TEST(KillResumeTest, TrainsTheSameFlux) {
  ExpectTheSame("flux", /*num_kills=*/2, /*max_aspect=*/1, {"--model=tiny_flux", "--dtype=bf16"});
}

TEST(KillResumeTest, TrainsTheSameModelWithStepsOfSeveralSizes) {
  ExpectTheSame("buckets", /*num_kills=*/2, /*max_aspect=*/2, {"--data.max_aspect=2"});
}

TEST(KillResumeTest, TrainsTheSameModelWithACacheOfSeveralSizes) {
  ExpectTheSame("cached_buckets", /*num_kills=*/2, /*max_aspect=*/2,
                {"--data.max_aspect=2", "--strategy=offline_cache",
                 "--data.cache=" + ::testing::TempDir() + "/cache"});
}

}  // namespace
}  // namespace dpipe
