#include "core/ops/product/conv2d_gemm.h"

#include "core/ops/testing/op_testing.h"

namespace dpipe::ops::cpu {
namespace {

struct Case {
  Conv2dParams params;
  Shape x;  // [N, H, W, I]
  Shape w;  // [O, I, R, S]
};

const Case kCases[] = {
    {Conv2dSymmetric(1, 1), {2, 6, 6, 16}, {20, 16, 3, 3}},  // all samples at a time
    {Conv2dSymmetric(1, 1), {5, 11, 10, 3}, {4, 3, 3, 3}},   // two at a time, one left over
    {Conv2dSymmetric(1, 1), {2, 17, 16, 3}, {4, 3, 3, 3}},   // one at a time
    {Conv2dSymmetric(2, 1), {2, 8, 8, 24}, {7, 24, 3, 3}},   // a U-Net's down-sampling
    {{2, 0, 1, 0, 1}, {2, 8, 6, 5}, {6, 5, 3, 3}},  // a VAE's: padded at the bottom and on the
                                                    // right only
    {{2, 1, 0, 0, 1}, {1, 9, 9, 5}, {7, 5, 3, 3}},  // odd sizes
    {Conv2dSymmetric(2, 0), {2, 5, 5, 6}, {8, 6, 1, 1}},    // pointwise with a stride
    {Conv2dSymmetric(3, 2), {1, 11, 10, 4}, {6, 4, 5, 4}},  // rows and columns left over
    {Conv2dSymmetric(1, 0), {3, 3, 3, 2}, {1, 2, 3, 3}},    // one output pixel
    {Conv2dSymmetric(1, 1), {1, 1, 1, 4}, {3, 4, 3, 3}},    // mostly outside the image
};

// As in conv2d_test.
Tolerance For(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{1e-5, 1e-5} : Tolerance{1.0 / 128, 1e-4};
}
constexpr Tolerance kWeightGrad = {1e-5, 1e-4};

class Conv2dGemmTest : public ::testing::TestWithParam<DType> {};

TEST_P(Conv2dGemmTest, AgreesWithReference) {
  const DType dtype = GetParam();
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.x.ToString() + " " + c.w.ToString());
    const float scale = 1 / std::sqrt(static_cast<float>(c.w[1] * c.w[2] * c.w[3]));
    // Values that bf16 represents exactly, because the reference rounds the weight.
    const Weight w(RandomTensor(cpu, c.w, DType::kF32, 1, scale).To(DType::kBf16).To(DType::kF32));
    const Weight w_ref(OnDevice(ref, w.master()));
    const Tensor x = RandomTensor(cpu, c.x, dtype, 2);
    const Tensor dy = RandomTensor(cpu, Conv2dOutputShape(c.params, c.x, c.w), dtype, 3);
    const Tensor x_ref = OnDevice(ref, x), dy_ref = OnDevice(ref, dy);
    for (const Tensor& bias : {Tensor(), RandomTensor(cpu, {c.w[0]}, DType::kF32, 4)}) {
      ExpectClose(*GemmConv2dForward(c.params, x, w, bias),
                  *Conv2dForward(c.params, x_ref, w_ref, OnDevice(ref, bias)), For(dtype));
    }
    ExpectClose(*GemmConv2dInputGrad(c.params, dy, w, c.x),
                *Conv2dInputGrad(c.params, dy_ref, w_ref, c.x), For(dtype));
    Tensor dw = RandomTensor(cpu, c.w, DType::kF32, 5), dw_ref = OnDevice(ref, dw);
    ASSERT_TRUE(GemmConv2dWeightGrad(c.params, x, dy, &dw).ok());
    ASSERT_TRUE(Conv2dWeightGrad(c.params, x_ref, dy_ref, &dw_ref, nullptr).ok());
    ExpectClose(dw, dw_ref, kWeightGrad);
  }
}

TEST_P(Conv2dGemmTest, SameBitsTwiceAndWhateverTheOtherSamplesAre) {
  const auto cpu = Device::Cpu();
  const Case c = {Conv2dSymmetric(1, 1), {4, 12, 8, 32}, {48, 32, 3, 3}};
  const Weight w(RandomTensor(cpu, c.w, DType::kF32, 1));
  const Tensor x = RandomTensor(cpu, c.x, GetParam(), 2);
  const Tensor dy = RandomTensor(cpu, Conv2dOutputShape(c.params, c.x, c.w), GetParam(), 3);
  Tensor other_x = RandomTensor(cpu, c.x, GetParam(), 4);
  Tensor other_dy = RandomTensor(cpu, dy.shape(), GetParam(), 5);
  other_x.Slice(2, 3).CopyFrom(x.Slice(2, 3));
  other_dy.Slice(2, 3).CopyFrom(dy.Slice(2, 3));
  const Tensor y = *GemmConv2dForward(c.params, x, w, Tensor());
  const Tensor dx = *GemmConv2dInputGrad(c.params, dy, w, c.x);
  ExpectSameBits(*GemmConv2dForward(c.params, x, w, Tensor()), y);
  ExpectSameBits(*GemmConv2dInputGrad(c.params, dy, w, c.x), dx);
  ExpectSameBits(GemmConv2dForward(c.params, other_x, w, Tensor())->Slice(2, 3), y.Slice(2, 3));
  ExpectSameBits(GemmConv2dInputGrad(c.params, other_dy, w, c.x)->Slice(2, 3), dx.Slice(2, 3));
}

INSTANTIATE_TEST_SUITE_P(DTypes, Conv2dGemmTest, ::testing::Values(DType::kF32, DType::kBf16),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

}  // namespace
}  // namespace dpipe::ops::cpu
