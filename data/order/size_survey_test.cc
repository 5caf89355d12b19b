#include "data/order/size_survey.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(SizeSurveyTest, FitsByHand) {
  EXPECT_EQ(FitOf({64, 64}, {64, 64}).scale, 1);
  EXPECT_EQ(FitOf({64, 64}, {64, 64}).cut, 0);
  EXPECT_EQ(FitOf({1, 1}, {64, 64}).scale, 64);
  EXPECT_EQ(FitOf({1, 1}, {64, 64}).cut, 0);
  // Shrunk to 128 x 64, of which half is cropped.
  EXPECT_EQ(FitOf({256, 128}, {64, 64}).scale, 0.5);
  EXPECT_EQ(FitOf({256, 128}, {64, 64}).cut, 0.5);
  // Enlarged to 64 x 128.
  EXPECT_EQ(FitOf({32, 64}, {64, 96}).scale, 2);
  EXPECT_EQ(FitOf({32, 64}, {64, 96}).cut, 0.25);
}

TEST(SizeSurveyTest, CountsBySize) {
  StepOrderOptions options;
  options.global_batch = 2;
  options.buckets = {{64, 32}, {32, 32}};
  const std::vector<ImageSize> images = {{64, 64}, {1, 1}, {128, 64}, {100, 40}, {0, 0}, {65, 64}};
  const StepOrder order(options, 6, images);
  const SizeSurvey survey = SurveySizes(order, {0, 1, 2, 3, 4, 5}, images);
  ASSERT_EQ(survey.uses.size(), 2u);
  const SizeUse &wide = survey.uses[0], &square = survey.uses[1];
  EXPECT_EQ(wide.num_samples, 2);
  EXPECT_EQ(wide.num_known, 2);
  EXPECT_EQ(wide.num_cropped, 1) << "100 x 40 loses a fifth";
  EXPECT_NEAR(wide.sum_cut, 0.2, 1e-12);
  EXPECT_EQ(square.num_samples, 4) << "images of unknown size count in the most common bucket";
  EXPECT_EQ(square.num_known, 3);
  EXPECT_EQ(square.num_cropped, 1) << "65 x 64 loses 1/65";
  EXPECT_EQ(square.num_enlarged, 1);
  EXPECT_EQ(survey.most_enlarged, 1);
  EXPECT_EQ(survey.most_enlarged_size.width, 1);
  EXPECT_EQ(survey.max_scale, 32);
  EXPECT_EQ(survey.most_cropped, 3);
  EXPECT_NEAR(survey.max_cut, 0.2, 1e-12);
  EXPECT_EQ(survey.all.num_samples, 6);
  EXPECT_EQ(survey.all.num_known, 5);
  EXPECT_EQ(survey.all.num_cropped, 2);
  EXPECT_EQ(survey.all.num_enlarged, 1);
}

// Rounding to whole pixels does not count as cropping, and a sample of the images is enough.
TEST(SizeSurveyTest, FittingImagesAreNeitherCroppedNorEnlarged) {
  StepOrderOptions options;
  options.size = {512, 512};
  const StepOrder order(options, 1000, {});
  const SizeSurvey survey = SurveySizes(order, {7, 500}, {{1024, 1020}, {512, 512}});
  EXPECT_EQ(survey.all.num_samples, 1000);
  EXPECT_EQ(survey.all.num_known, 2);
  EXPECT_EQ(survey.all.num_cropped, 0);
  EXPECT_EQ(survey.all.num_enlarged, 0);
  EXPECT_EQ(survey.most_cropped, -1);
  EXPECT_EQ(survey.most_enlarged, -1);
}

}  // namespace
}  // namespace dpipe
