#include "core/cost/roofline/modelled_profile.h"

#include "gtest/gtest.h"

namespace dpipe::roofline {
namespace {

TEST(DeviceSpecTest, PassByHand) {
  DeviceSpec device;
  device.peak_macs_per_s = 1e12;
  device.memory_bytes_per_s = 1e11;
  device.convolution = {0.5, 0.4, 0.3};
  device.attention = {0.5, 0.25, 0.25};
  device.memory = {0.8, 0.4, 0.4};
  device.full_convolution_macs = 3e9;
  device.kernel_ns = 7;
  OpWork op;
  op.op_class = OpClass::kConvolution;
  EXPECT_EQ(PassNs(device, op, Pass::kForward, 4), 0);  // there is none
  op.forward = op.input_grad = {/*macs=*/500'000'000, /*bytes=*/1000, /*fixed_bytes=*/0,
                                /*kernels=*/1};
  // 1e9 multiply-adds are a quarter of w + full: half the efficiency, 0.25 of the peak.
  EXPECT_NEAR(PassNs(device, op, Pass::kForward, 2), 4e6 + 7, 1e-3);
  EXPECT_NEAR(PassNs(device, op, Pass::kInputGrad, 2), 5e6 + 7, 1e-3);
  op.op_class = OpClass::kAttention;
  op.head_size = 40;  // as slow as 64
  EXPECT_NEAR(PassNs(device, op, Pass::kForward, 2), 2e6 * 64 / 40 + 7, 1e-3);
  op.head_size = 128;
  EXPECT_NEAR(PassNs(device, op, Pass::kInputGrad, 2), 4e6 + 7, 1e-3);
  op.op_class = OpClass::kMemory;
  op.forward = op.weight_grad = {0, 100'000'000, 50'000'000, 2};
  EXPECT_NEAR(PassNs(device, op, Pass::kForward, 3), 350e6 / 80e9 * 1e9 + 14, 1e-3);
  EXPECT_NEAR(PassNs(device, op, Pass::kWeightGrad, 3), 350e6 / 40e9 * 1e9 + 14, 1e-3);
}

}  // namespace
}  // namespace dpipe::roofline
