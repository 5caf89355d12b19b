// Compares ControlNet with diffusers: see testdata/make_goldens.py.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "models/controlnet/golden_case.h"

namespace dpipe::models {
namespace {

const ControlNetGolden kCases[] = {
    {"controlnet_mixed", "unet_mixed", "goldens.safetensors", diffusion::PredictionType::kEpsilon},
    {"controlnet_conv", "unet_conv", "goldens.safetensors", diffusion::PredictionType::kV}};

ControlNetGoldenErrors Measure(const ControlNetGolden& c, DType dtype,
                               const std::shared_ptr<Device>& device) {
  const ControlNetGoldenErrors errors = MeasureControlNetGolden(c, dtype, device);
  ::testing::Test::RecordProperty(c.name + "_prediction", absl::StrCat(errors.prediction));
  ::testing::Test::RecordProperty(c.name + "_loss", absl::StrCat(errors.loss));
  ::testing::Test::RecordProperty(c.name + "_gradient_norm", absl::StrCat(errors.gradient_norm));
  return errors;
}

TEST(ControlNetParityTest, Fp32) {
  for (const auto& device : {Device::Cpu(), Device::CpuReference()}) {
    for (const ControlNetGolden& c : kCases) {
      const ControlNetGoldenErrors errors = Measure(c, DType::kF32, device);
      EXPECT_LT(errors.prediction, 1e-5) << c.name;
      EXPECT_LT(errors.loss, 1e-5) << c.name;
      EXPECT_LT(errors.gradient_norm, 1e-5) << c.name << ": " << errors.worst_gradient;
    }
  }
}

TEST(ControlNetParityTest, Bf16) {
  for (const ControlNetGolden& c : kCases) {
    const ControlNetGoldenErrors errors = Measure(c, DType::kBf16, Device::Cpu());
    EXPECT_LT(errors.prediction, 0.03) << c.name;
    EXPECT_LT(errors.loss, 0.03) << c.name;
    EXPECT_LT(errors.gradient_norm, 0.06) << c.name << ": " << errors.worst_gradient;
  }
}

}  // namespace
}  // namespace dpipe::models
