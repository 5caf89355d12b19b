#include "models/diffusion/draw_options.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

using ::testing::HasSubstr;

TEST(DrawOptionsTest, InvalidOptionsAreErrors) {
  diffusion::NoiseScheduleOptions of_schedule;
  of_schedule.num_train_timesteps = 100;
  of_schedule.steps_offset = 0;
  const auto schedule = diffusion::NoiseSchedule::Create(of_schedule);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  const auto error = [&](const DrawOptions& options) {
    return std::string(CheckDrawOptions(options, *schedule).message());
  };
  DrawOptions options;
  options.num_steps = 100;
  EXPECT_EQ(error(options), "");
  options.num_steps = 101;
  EXPECT_EQ(error(options), "sampling in 101 steps; the schedule allows 1 to 100");
  options.num_steps = 0;
  EXPECT_THAT(error(options), HasSubstr("sampling in 0 steps"));
  options = DrawOptions();
  options.batch = 0;
  EXPECT_EQ(error(options), "sampling batch is 0, must be at least 1");
  options = DrawOptions();
  options.guidance = std::numeric_limits<float>::infinity();
  EXPECT_EQ(error(options), "the guidance scale is inf, must be finite");
}

TEST(DrawOptionsTest, OptionsOverrideTheSchedulesSampler) {
  const auto options_of = diffusion::ParseSchedulerConfig(
      R"({"_class_name": "PNDMScheduler", "skip_prk_steps": true})");
  ASSERT_TRUE(options_of.ok()) << options_of.status();
  const auto schedule = diffusion::NoiseSchedule::Create(*options_of);
  DrawOptions options;
  options.num_steps = 20;
  EXPECT_EQ(SamplerFor(options, *schedule), diffusion::SamplerKind::kPndm);
  EXPECT_EQ(NumModelCalls(options, *schedule), 21) << "the first step is corrected";
  options.kind = diffusion::SamplerKind::kDdim;
  EXPECT_EQ(SamplerFor(options, *schedule), diffusion::SamplerKind::kDdim);
  EXPECT_EQ(NumModelCalls(options, *schedule), 20);
}

TEST(DrawOptionsTest, PicturesThatAreNotFiniteAreNamed) {
  Tensor pictures = Tensor::Zeros(Device::Cpu(), {2, 1, 2, 3}, DType::kF32);
  const std::vector<std::string> prompts = {"a cat", "a dog"};
  EXPECT_TRUE(CheckPictures(pictures, prompts).ok());
  for (const float bad : {NAN, INFINITY}) {
    pictures.data<float>()[7] = bad;
    const absl::Status status = CheckPictures(pictures, prompts);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("the picture of 'a dog' is not finite: 1 of its 6 values"),
              absl::string_view::npos)
        << status;
  }
}

}  // namespace
}  // namespace dpipe::models
