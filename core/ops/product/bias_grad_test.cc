#include "core/ops/product/bias_grad.h"

#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

TEST(BiasGradTest, AddsSumsOverRows) {
  const auto cpu = Device::Cpu();
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 5, 7}, Shape{300, 33}, Shape{2, 9, 8, 64}}) {
      const Tensor dy = RandomTensor(cpu, shape, dtype, 1);
      Tensor db = RandomTensor(cpu, {shape[-1]}, DType::kF32, 2);
      std::vector<double> expected = Values(db);
      const std::vector<double> values = Values(dy);
      for (size_t i = 0; i < values.size(); ++i) expected[i % expected.size()] += values[i];
      AddBiasGrad(dy, &db);
      // Runs of 128 rows are summed in fp32: at most 128 roundings of partial sums up to 30, 2^-20
      // each. They average out to about a tenth of the bound of 1.2e-4.
      for (size_t c = 0; c < expected.size(); ++c) ASSERT_NEAR(Values(db)[c], expected[c], 1.2e-4);
    }
  }
}

}  // namespace
}  // namespace dpipe::ops
