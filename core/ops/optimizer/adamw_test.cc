#include <cmath>
#include <limits>

#include "core/ops/optimizer/optimizer.h"
#include "core/ops/testing/op_testing.h"

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
  // A few fp32 roundings per step, of updates of 1e-2 and values of 3.
  ExpectClose(a.p, b.p, {3e-6, 1e-6});
  ExpectClose(a.m, b.m, {3e-6, 1e-6});
  ExpectClose(a.v, b.v, {5e-6, 1e-9});
}

// The recurrences from the paper in double, independent of how factors are combined.
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

// The CPU agrees with the reference, and 8-bit moments with fp32 moments up to their rounding.
TEST(AdamWInt8Test, CpuAgreesWithReferenceAndWithMomentsInFp32) {
  const auto cpu = Device::Cpu({0, 1}), ref = Device::CpuReference();
  constexpr int64_t kSize = 40000;  // several runs, the last block cut short
  AdamWParams params;
  params.learning_rate = 1e-2f;
  const auto moments = [&](const std::shared_ptr<Device>& device) {
    return std::vector<BlockQuantized>{{device, kSize, 256, BlockQuantized::Sign::kSigned},
                                       {device, kSize, 256, BlockQuantized::Sign::kUnsigned}};
  };
  std::vector<BlockQuantized> of_cpu = moments(cpu), of_ref = moments(ref);
  State a(cpu, kSize), b(ref, kSize), whole(cpu, kSize);
  b.p.CopyFrom(a.p);
  whole.p.CopyFrom(a.p);
  for (int step = 1; step <= 5; ++step) {
    const Tensor grad = RandomTensor(cpu, {kSize}, DType::kF32, 100 + step);
    ASSERT_TRUE(AdamWInt8Steps({{params, grad, a.p, &of_cpu[0], &of_cpu[1]}}, step, 0.5f).ok());
    ASSERT_TRUE(
        AdamWInt8Steps({{params, OnDevice(ref, grad), b.p, &of_ref[0], &of_ref[1]}}, step, 0.5f)
            .ok());
    ASSERT_TRUE(AdamWStep(params, step, 0.5f, grad, &whole.p, &whole.m, &whole.v).ok());
    if (step > 1) continue;
    // Moments were 0, which is represented exactly.
    ExpectSameBits(a.p, whole.p);
    ExpectClose(a.p, b.p, {3e-6, 1e-6});
  }
  // Rounding changes the code of only a few numbers, and then to a nearby code.
  int others = 0;
  double distance = 0, moved = 0;
  const State start(cpu, kSize);
  for (int64_t i = 0; i < kSize; ++i) {
    const double p = a.p.data<float>()[i];
    others += std::abs(p - b.p.data<float>()[i]) > 1e-5 ? 1 : 0;
    distance += std::abs(p - whole.p.data<float>()[i]);
    moved += std::abs(p - start.p.data<float>()[i]);
  }
  EXPECT_LT(others, kSize / 500);
  EXPECT_GT(moved / kSize, 0.01);
  EXPECT_LT(distance, 0.05 * moved);
}

TEST(AdamWInt8Test, ThreadsDoNotMatter) {
  constexpr int64_t kSize = 50000;
  const Tensor grad = RandomTensor(Device::Cpu(), {kSize}, DType::kF32, 7);
  std::vector<Tensor> results;
  for (const auto& device : {Device::Cpu({0}), Device::Cpu({0, 1})}) {
    BlockQuantized m(device, kSize, 100, BlockQuantized::Sign::kSigned);
    BlockQuantized root_v(device, kSize, 100, BlockQuantized::Sign::kUnsigned);
    const Tensor p = OnDevice(device, grad), g = OnDevice(device, grad);
    for (int step : {1, 2}) ASSERT_TRUE(AdamWInt8Steps({{{}, g, p, &m, &root_v}}, step, 1).ok());
    for (const Tensor& t : {p, m.Load({kSize}), root_v.Load({kSize})}) results.push_back(t);
  }
  for (int i = 0; i < 3; ++i) ExpectSameBits(results[i], results[3 + i]);
}

// The effect of `times` updates if gradients equal m and v is constant.
TEST(AdamWPredictTest, FollowsTheDefinition) {
  AdamWParams params;
  params.learning_rate = 0.1f;
  params.weight_decay = 0.5f;  // left out
  for (const auto& device : {Device::Cpu(), Device::CpuReference()}) {
    const AdamWPrediction prediction = {Tensor::FromHost<float>(device, {2}, {2, -1}),
                                        Tensor::FromHost<float>(device, {2}, {0.3f, -0.2f}),
                                        Tensor::FromHost<float>(device, {2}, {0.04f, 0})};
    ASSERT_TRUE(AdamWPredict(params, /*step=*/2, /*times=*/3, {prediction}).ok());
    const double rate = 3 * 0.1 / (1 - 0.9 * 0.9), v_hat = 0.04 / (1 - 0.999 * 0.999);
    EXPECT_NEAR(prediction.parameter.data<float>()[0], 2 - rate * 0.3 / (std::sqrt(v_hat) + 1e-8),
                2e-6);
    EXPECT_NEAR(prediction.parameter.data<float>()[1] / (rate * 0.2 / 1e-8), 1, 1e-5);
    EXPECT_EQ(prediction.m.data<float>()[0], 0.3f);
    EXPECT_EQ(prediction.v.data<float>()[0], 0.04f);
  }
}

TEST(SumOfSquaresTest, AgreesWithReferenceAndThreadsDoNotMatter) {
  const auto cpu = Device::Cpu();
  for (int64_t n : {1, 15, 16, 100003}) {
    const Tensor x = RandomTensor(cpu, {n}, DType::kF32, 3);
    const double sum = *SumOfSquares(x);
    // Partial sums in double: an error of at most n / 16 * 2^-53.
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

}  // namespace
}  // namespace dpipe::ops
