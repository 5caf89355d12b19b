#include "core/ops/diffusion/diffusion.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBf16};

TEST(MseLossTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  for (DType p_type : kTypes) {
    for (DType t_type : kTypes) {
      const Tensor p = RandomTensor(cpu, {3, 31, 37, 2}, p_type, 1);
      const Tensor t = RandomTensor(cpu, {3, 31, 37, 2}, t_type, 2);
      const Tensor w = Tensor::FromHost<float>(cpu, {3}, {1, 0.25f, 3});
      const Tensor d = Tensor::FromHost<float>(cpu, {3}, {0.5f, 1, 2});
      for (const Tensor& weights : {w, Tensor()}) {
        // Sums of 1024 positive terms in 32 parts, then in double: a few times 2^-24.
        const Tensor loss = *MseLossForward(p, t, weights);
        ExpectClose(loss,
                    *MseLossForward(OnDevice(ref, p), OnDevice(ref, t), OnDevice(ref, weights)),
                    {1e-6, 0});
        const Tensor dp = *MseLossInputGrad(p, t, weights, d);
        // Two fp32 roundings of a difference of values of size 3, times 2 / 2294.
        ExpectClose(dp,
                    *MseLossInputGrad(OnDevice(ref, p), OnDevice(ref, t), OnDevice(ref, weights),
                                      OnDevice(ref, d)),
                    {p_type == DType::kF32 ? 5e-7 : 1.0 / 128, 1e-9});
      }
      ExpectSameBits(*MseLossForward(p.Slice(1, 2), t.Slice(1, 2), w.Slice(1, 2)),
                     MseLossForward(p, t, w)->Slice(1, 2));
      ExpectSameBits(*MseLossInputGrad(p.Slice(1, 2), t.Slice(1, 2), w.Slice(1, 2), d.Slice(1, 2)),
                     MseLossInputGrad(p, t, w, d)->Slice(1, 2));
    }
  }
}

TEST(MseLossTest, ByHand) {
  for (const auto& device : {Device::Cpu(), Device::CpuReference()}) {
    const Tensor p = Tensor::FromHost<float>(device, {2, 2}, {1, 2, 3, 4});
    const Tensor t = Tensor::FromHost<float>(device, {2, 2}, {0, 0, 3, 2});
    const Tensor w = Tensor::FromHost<float>(device, {2}, {1, 3});
    EXPECT_EQ(Values(*MseLossForward(p, t, Tensor())), (std::vector<double>{2.5, 2}));
    EXPECT_EQ(Values(*MseLossForward(p, t, w)), (std::vector<double>{2.5, 6}));
    const Tensor d = Tensor::FromHost<float>(device, {2}, {1, 0.5f});
    EXPECT_EQ(Values(*MseLossInputGrad(p, t, w, d)), (std::vector<double>{1, 2, 0, 3}));
  }
}

TEST(MseLossTest, GradientAgreesWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor p = RandomTensor(ref, {2, 3, 4}, DType::kF32, 1);
  const Tensor t = RandomTensor(ref, {2, 3, 4}, DType::kF32, 2);
  const Tensor w = Tensor::FromHost<float>(ref, {2}, {1, 0.25f});
  const Tensor d = Tensor::FromHost<float>(ref, {2}, {2, 3});
  ExpectGradient([&](const Tensor& v) { return Dot(d, *MseLossForward(v, t, w)); }, p,
                 *MseLossInputGrad(p, t, w, d));
}

}  // namespace
}  // namespace dpipe::ops
