#include "models/stable_diffusion/config_corrections.h"

#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

// Without clip_sample, as PNDMScheduler writes it.
TEST(CorrectSchedulerTest, LatentsAreNotClamped) {
  auto scheduler = diffusion::ParseSchedulerConfig(
      R"({"_class_name": "PNDMScheduler", "beta_schedule": "scaled_linear", "beta_start": 0.00085,
          "beta_end": 0.012, "skip_prk_steps": true, "set_alpha_to_one": false,
          "trained_betas": null})");
  ASSERT_TRUE(scheduler.ok()) << scheduler.status();
  EXPECT_TRUE(scheduler->clip_sample);
  CorrectScheduler(&*scheduler);
  EXPECT_FALSE(scheduler->clip_sample);
  EXPECT_EQ(scheduler->steps_offset, 1);
  EXPECT_FALSE(scheduler->set_alpha_to_one);
}

TEST(CorrectSampleSizeTest, OldConfigsAreThoseOfVersionOne) {
  const struct {
    const char* version;
    int64_t sample_size, expected;
  } cases[] = {{"0.8.1", 32, 64},  {"0.6.0.dev0", 32, 64}, {"0.4", 16, 64},    {"0.8.0", 96, 96},
               {"0.9.0", 32, 32},  {"0.9.0.dev0", 32, 32}, {"0.10.2", 32, 32}, {"1.0.0", 32, 32},
               {"0.42.1", 16, 16}, {"", 32, 32},           {"new", 32, 32}};
  for (const auto& c : cases) {
    UNetConfig unet;
    unet.diffusers_version = c.version;
    unet.sample_size = c.sample_size;
    CorrectSampleSize(&unet);
    EXPECT_EQ(unet.sample_size, c.expected) << c.version;
  }
}

}  // namespace
}  // namespace dpipe::models
