// Compares the full-size stand-ins of CDM-LSUN and CDM-ImageNet with diffusers, for images of small
// height and width: outputs, losses and every parameter's gradient.
#include "gtest/gtest.h"
#include "models/pixel_unet/golden_case.h"

namespace dpipe::models {
namespace {

class FullSizeGoldenTest : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(FullSizeGoldenTest, Fp32) {
  const GoldenErrors errors = MeasureGolden(GetParam(), DType::kF32, Device::Cpu());
  EXPECT_LT(errors.prediction, 1e-4);
  EXPECT_LT(errors.loss, 1e-4);
  EXPECT_LT(errors.gradient_norm, 1e-4);
  EXPECT_LT(errors.gradient_product, 1e-4);
}

// As in pixel_unet_test: roundings of 0.11 % (root mean square) add up as squares. The longest main
// path here has some 200 of them: 1.6 % forward and twice that backward.
TEST_P(FullSizeGoldenTest, Bf16) {
  const GoldenErrors errors = MeasureGolden(GetParam(), DType::kBf16, Device::Cpu());
  EXPECT_LT(errors.prediction, 0.05);
  EXPECT_LT(errors.loss, 0.05);
  EXPECT_LT(errors.gradient_norm, 0.15);
  EXPECT_LT(errors.gradient_product, 0.5);
}

INSTANTIATE_TEST_SUITE_P(
    Models, FullSizeGoldenTest,
    ::testing::Values(
        GoldenCase{"cdm_lsun_base", "full", "data/models/cdm_lsun/base/config.json", 16},
        GoldenCase{"cdm_lsun_super_resolution", "full",
                   "data/models/cdm_lsun/super_resolution/config.json", 32},
        GoldenCase{"cdm_imagenet_base", "full", "data/models/cdm_imagenet/base/config.json", 16},
        GoldenCase{"cdm_imagenet_super_resolution", "full",
                   "data/models/cdm_imagenet/super_resolution/config.json", 32}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dpipe::models
