// Compares the ControlNet of Stable Diffusion v1.5 with diffusers, at full size and with 8 x 8
// latents: see testdata/make_goldens.py.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "models/controlnet/golden_case.h"

namespace dpipe::models {
namespace {

ControlNetGoldenErrors Measure(DType dtype, bool with_prediction) {
  const ControlNetGolden c = {"controlnet_v15", "unet_v15", "goldens_full.safetensors",
                              diffusion::PredictionType::kEpsilon, with_prediction};
  const ControlNetGoldenErrors errors = MeasureControlNetGolden(c, dtype, Device::Cpu());
  ::testing::Test::RecordProperty("prediction", absl::StrCat(errors.prediction));
  ::testing::Test::RecordProperty("loss", absl::StrCat(errors.loss));
  ::testing::Test::RecordProperty("gradient_norm", absl::StrCat(errors.gradient_norm));
  return errors;
}

TEST(ControlNetFullTest, Fp32) {
  const ControlNetGoldenErrors errors = Measure(DType::kF32, /*with_prediction=*/true);
  EXPECT_LT(errors.prediction, 1e-4);
  EXPECT_LT(errors.loss, 1e-4);
  EXPECT_LT(errors.gradient_norm, 1e-4) << errors.worst_gradient;
}

TEST(ControlNetFullTest, Bf16) {
  const ControlNetGoldenErrors errors = Measure(DType::kBf16, /*with_prediction=*/false);
  EXPECT_LT(errors.loss, 0.03);
  EXPECT_LT(errors.gradient_norm, 0.06) << errors.worst_gradient;
}

}  // namespace
}  // namespace dpipe::models
