#include "core/ops/cuda/direct_convolution.h"

#include <functional>

#include "core/ops/testing/op_testing.h"
#include "gtest/gtest.h"

namespace dpipe::ops::cuda {
namespace {

void ExpectElements(const Tensor& expected, const std::function<double(int64_t)>& element) {
  const std::vector<double> values = Values(expected);
  const double rounding = expected.dtype() == DType::kBf16 ? 1.0 / 128 : 1e-5;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(element(i), values[i], 1e-4 + rounding * std::abs(values[i])) << "element " << i;
  }
}

class DirectConvolutionTest : public ::testing::TestWithParam<DType> {};

// Strides, unequal padding and non-square filters.
TEST_P(DirectConvolutionTest, MatchesTheReference) {
  const std::shared_ptr<Device> host = Device::CpuReference();
  struct Case {
    Shape x, w;
    Conv2dParams params;
  };
  for (const Case& c : {Case{{2, 5, 7, 3}, {4, 3, 3, 3}, Conv2dSymmetric(1, 1)},
                        Case{{2, 7, 9, 4}, {3, 4, 3, 3}, {2, 0, 1, 0, 1}},
                        Case{{1, 6, 6, 5}, {2, 5, 4, 3}, {3, 2, 1, 0, 2}}}) {
    const Tensor x = RandomTensor(host, c.x, GetParam(), 1);
    const Tensor w = RandomTensor(host, c.w, DType::kF32, 2);
    const Tensor dy = RandomTensor(host, Conv2dOutputShape(c.params, c.x, c.w), GetParam(), 3);
    const DirectConvolution direct(c.params, x, w, dy);
    const Weight weight(w);
    Tensor dw = Tensor::Zeros(host, c.w, DType::kF32);
    Tensor db = Tensor::Zeros(host, {c.w[0]}, DType::kF32);
    ASSERT_TRUE(Conv2dWeightGrad(c.params, x, dy, &dw, &db).ok());
    ExpectElements(*Conv2dForward(c.params, x, weight, Tensor()),
                   [&](int64_t i) { return direct.Y(i); });
    ExpectElements(*Conv2dInputGrad(c.params, dy, weight, c.x),
                   [&](int64_t i) { return direct.Dx(i); });
    ExpectElements(dw, [&](int64_t i) { return direct.Dw(i); });
    ExpectElements(db, [&](int64_t i) { return direct.Db(i); });
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, DirectConvolutionTest,
                         ::testing::Values(DType::kF32, DType::kBf16));

}  // namespace
}  // namespace dpipe::ops::cuda
