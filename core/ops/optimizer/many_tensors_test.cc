#include "core/ops/optimizer/optimizer.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

TEST(AxpbyTest, CpuAgreesWithReferenceAndByHand) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  std::vector<AxpbyPair> pairs, expected;
  for (int64_t n : {77, 1, 40000}) {
    pairs.push_back(
        {RandomTensor(cpu, {n}, DType::kF32, n), RandomTensor(cpu, {n}, DType::kF32, 5)});
    expected.push_back({OnDevice(ref, pairs.back().x), OnDevice(ref, pairs.back().y)});
  }
  ASSERT_TRUE(Axpby(-0.1f, 0.9f, pairs).ok());
  ASSERT_TRUE(Axpby(-0.1f, 0.9f, expected).ok());
  for (size_t i = 0; i < pairs.size(); ++i) {
    ExpectClose(pairs[i].y, expected[i].y, {3e-7, 5e-7});
  }
  const AxpbyPair one = {Tensor::FromHost<float>(cpu, {1}, {4}),
                         Tensor::FromHost<float>(cpu, {1}, {8})};
  ASSERT_TRUE(Axpby(0.25f, 0.75f, {one}).ok());
  EXPECT_EQ(one.y.data<float>()[0], 7);
  EXPECT_TRUE(Axpby(1, 1, {}).ok());
}

}  // namespace
}  // namespace dpipe::ops
