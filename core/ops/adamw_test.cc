#include "core/ops/adamw.h"

#include <cmath>
#include <limits>

#include "core/ops/op_testing.h"

namespace dpipe::ops {
namespace {

struct State {
  State(const std::shared_ptr<Device>& device, int64_t n)
      : p(RandomTensor(device, {n}, DType::kF32, 1)),
        m(Tensor::Zeros(device, {n}, DType::kF32)),
        v(Tensor::Zeros(device, {n}, DType::kF32)) {}
  Tensor p, m, v;
};

TEST(AdamWTest, CpuAgreesWithReferenceOverTwentySteps) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  AdamWParams params;
  params.learning_rate = 1e-2f;
  State a(cpu, 1003), b(ref, 1003);
  b.p.CopyFrom(a.p);
  for (int step = 1; step <= 20; ++step) {
    const Tensor grad = RandomTensor(cpu, {1003}, DType::kF32, 100 + step);
    ASSERT_TRUE(AdamWStep(params, step, 0.5f, grad, &a.p, &a.m, &a.v).ok());
    ASSERT_TRUE(AdamWStep(params, step, 0.5f, OnDevice(ref, grad), &b.p, &b.m, &b.v).ok());
  }
  // A few fp32 roundings a step, of updates of 1e-2 and values of 3.
  ExpectClose(a.p, b.p, {3e-6, 1e-6});
  ExpectClose(a.m, b.m, {3e-6, 1e-6});
  ExpectClose(a.v, b.v, {5e-6, 1e-9});
}

// The recurrences written out in double from the paper, independent of how factors are folded.
TEST(AdamWTest, ReferenceFollowsTheDefinition) {
  const auto ref = Device::CpuReference();
  AdamWParams params;
  params.learning_rate = 0.1f;
  params.weight_decay = 0.5f;
  State s(ref, 1);
  s.p.data<float>()[0] = 2;
  double p = 2, m = 0, v = 0;
  const double grads[] = {1, -3, 0.5};
  for (int step = 1; step <= 3; ++step) {
    const double g = 0.25 * grads[step - 1];
    p *= 1 - 0.1 * 0.5;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double m_hat = m / (1 - std::pow(0.9, step)), v_hat = v / (1 - std::pow(0.999, step));
    p -= 0.1 * m_hat / (std::sqrt(v_hat) + 1e-8);
    const Tensor grad = Tensor::FromHost<float>(ref, {1}, {static_cast<float>(grads[step - 1])});
    ASSERT_TRUE(AdamWStep(params, step, 0.25f, grad, &s.p, &s.m, &s.v).ok());
    EXPECT_NEAR(s.p.data<float>()[0], p, 2e-6) << step;
  }
}

TEST(AdamWTest, ResultDoesNotDependOnHowTensorsAreCut) {
  const auto cpu = Device::Cpu();
  State whole(cpu, 50), parts(cpu, 50);
  const Tensor grad = RandomTensor(cpu, {50}, DType::kF32, 2);
  ASSERT_TRUE(AdamWStep({}, 1, 1, grad, &whole.p, &whole.m, &whole.v).ok());
  for (int begin : {0, 13}) {
    const int end = begin == 0 ? 13 : 50;
    Tensor p = parts.p.Slice(begin, end), m = parts.m.Slice(begin, end),
           v = parts.v.Slice(begin, end);
    ASSERT_TRUE(AdamWStep({}, 1, 1, grad.Slice(begin, end), &p, &m, &v).ok());
  }
  ExpectSameBits(whole.p, parts.p);
  ExpectSameBits(whole.v, parts.v);
}

TEST(SumOfSquaresTest, AgreesWithReferenceAndThreadsDoNotMatter) {
  const auto cpu = Device::Cpu();
  for (int64_t n : {1, 15, 16, 100003}) {
    const Tensor x = RandomTensor(cpu, {n}, DType::kF32, 3);
    const double sum = *SumOfSquares(x);
    // Double partial sums: n / 16 * 2^-53 at worst.
    EXPECT_NEAR(sum, *SumOfSquares(OnDevice(Device::CpuReference(), x)), 1e-11 * sum);
    EXPECT_EQ(sum, *SumOfSquares(OnDevice(Device::Cpu({0, 1}), x)));
  }
}

TEST(SumOfSquaresTest, DoesNotOverflowFp32) {
  const Tensor x = Tensor::FromHost<float>(Device::Cpu(), {2}, {3e30f, 4e30f});
  EXPECT_NEAR(GlobalNorm({*SumOfSquares(x)}) / 5e30, 1, 1e-6);
}

TEST(ClipTest, ScalesOnlyLargeNorms) {
  EXPECT_EQ(GlobalNorm({9, 16}), 5);
  EXPECT_EQ(ClipScale(0.5, 1), 1);
  EXPECT_NEAR(ClipScale(4, 1), 0.25, 1e-6);
  EXPECT_EQ(ClipScale(4, 0), 1);
  EXPECT_TRUE(std::isnan(ClipScale(std::numeric_limits<double>::infinity(), 1)));
  EXPECT_TRUE(std::isnan(ClipScale(std::nan(""), 1)));
}

TEST(EmaTest, CpuAgreesWithReferenceAndByHand) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  const Tensor value = RandomTensor(cpu, {77}, DType::kF32, 4);
  Tensor average = RandomTensor(cpu, {77}, DType::kF32, 5);
  Tensor average_ref = OnDevice(ref, average);
  ASSERT_TRUE(EmaUpdate(0.9f, value, &average).ok());
  ASSERT_TRUE(EmaUpdate(0.9f, OnDevice(ref, value), &average_ref).ok());
  ExpectClose(average, average_ref, {3e-7, 5e-7});
  Tensor one = Tensor::FromHost<float>(cpu, {1}, {8});
  ASSERT_TRUE(EmaUpdate(0.75f, Tensor::FromHost<float>(cpu, {1}, {4}), &one).ok());
  EXPECT_EQ(one.data<float>()[0], 7);
}

}  // namespace
}  // namespace dpipe::ops
