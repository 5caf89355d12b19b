#include <cmath>

#include "core/ops/embedding/embedding.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

TEST(TimeEmbeddingTest, CosinesFirstFromFrequencyOneDown) {
  const auto cpu = Device::Cpu();
  const Tensor t = Tensor::FromHost<int32_t>(cpu, {2}, {0, 100});
  TimeEmbeddingParams params;
  params.dim = 4;  // frequencies 1 and 10000^(-1/2) = 0.01
  const std::vector<double> y = Values(*TimeEmbedding(params, t, DType::kF32));
  const double expected[] = {
      1, 1, 0, 0, std::cos(100.0), std::cos(1.0), std::sin(100.0), std::sin(1.0)};
  for (int i = 0; i < 8; ++i) EXPECT_NEAR(y[i], expected[i], 1e-7) << i;
}

TEST(TimeEmbeddingTest, SinesFirstAndShift) {
  const auto cpu = Device::Cpu();
  const Tensor t = Tensor::FromHost<float>(cpu, {1}, {2.5f});
  TimeEmbeddingParams params;
  params.dim = 4;
  params.cosine_first = false;
  params.frequency_shift = 1;  // the last frequency is then exactly 1 / max_period
  params.max_period = 100;
  const std::vector<double> y = Values(*TimeEmbedding(params, t, DType::kF32));
  const double expected[] = {std::sin(2.5), std::sin(0.025), std::cos(2.5), std::cos(0.025)};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(y[i], expected[i], 1e-7) << i;
}

TEST(TimeEmbeddingTest, TypesOfTimestepsAgreeAndBf16IsRoundedOnce) {
  const auto cpu = Device::Cpu();
  const Tensor ints = Tensor::FromHost<int32_t>(cpu, {3}, {1, 500, 999});
  const Tensor floats = Tensor::FromHost<float>(cpu, {3}, {1, 500, 999});
  const Tensor y = *TimeEmbedding({}, ints, DType::kF32);
  EXPECT_EQ(y.shape(), (Shape{3, 320}));
  ExpectSameBits(y, *TimeEmbedding({}, floats, DType::kF32));
  ExpectSameBits(y.To(DType::kBf16), *TimeEmbedding({}, ints, DType::kBf16));
  ExpectSameBits(y, *TimeEmbedding({}, OnDevice(Device::CpuReference(), ints), DType::kF32));
}

}  // namespace
}  // namespace dpipe::ops
