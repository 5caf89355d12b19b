#include "core/ops/elementwise/elementwise.h"
#include "core/ops/image/rearrange.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

TEST(ConcatTest, JoinsInOrder) {
  const auto cpu = Device::Cpu();
  const Tensor a = Tensor::FromHost<float>(cpu, {2, 1, 1}, {1, 2});
  const Tensor b = Tensor::FromHost<float>(cpu, {2, 1, 2}, {3, 4, 5, 6});
  EXPECT_EQ(Values(*ConcatChannels({a, b})), (std::vector<double>{1, 3, 4, 2, 5, 6}));
}

TEST(ConcatTest, SplitUndoesIt) {
  const auto cpu = Device::Cpu();
  cpu->allocator().set_poison(true);
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    const Tensor a = RandomTensor(cpu, {3, 10, 30, 5}, dtype, 1);
    const Tensor b = RandomTensor(cpu, {3, 10, 30, 17}, dtype, 2);
    const Tensor c = RandomTensor(cpu, {3, 10, 30, 1}, dtype, 3);
    const std::vector<Tensor> parts = *SplitChannels(*ConcatChannels({a, b, c}), {5, 17, 1});
    ASSERT_EQ(parts.size(), 3);
    ExpectSameBits(parts[0], a);
    ExpectSameBits(parts[1], b);
    ExpectSameBits(parts[2], c);
  }
}

TEST(ConcatTest, SinglePartIsACopy) {
  const auto cpu = Device::Cpu();
  const Tensor a = RandomTensor(cpu, {3, 5}, DType::kF32, 4);
  const Tensor joined = *ConcatChannels({a});
  ExpectSameBits(joined, a);
  EXPECT_NE(joined.raw_data(), a.raw_data());
}

TEST(SliceTest, IsAPartOfASplit) {
  const auto cpu = Device::Cpu();
  cpu->allocator().set_poison(true);
  for (DType dtype : {DType::kF32, DType::kBf16}) {
    // Rows longer than a piece, too.
    for (const int64_t width : {7, 20000}) {
      const Tensor x = RandomTensor(cpu, {3, 2, 5 + width + 3}, dtype, 1);
      const Tensor part = *SliceChannels(x, 5, width);
      ExpectSameBits(part, (*SplitChannels(x, {5, width, 3}))[1]);
      // The gradient is the part and zeros; an addend is added in fp32 and rounded once.
      const Tensor dx = *SliceChannelsInputGrad(part, 5, 5 + width + 3);
      const std::vector<Tensor> parts = *SplitChannels(dx, {5, width, 3});
      ExpectSameBits(parts[0], Tensor::Zeros(cpu, {3, 2, 5}, dtype));
      ExpectSameBits(parts[1], part);
      ExpectSameBits(parts[2], Tensor::Zeros(cpu, {3, 2, 3}, dtype));
      const Tensor later = RandomTensor(cpu, x.shape(), dtype, 2);
      ExpectSameBits(*SliceChannelsInputGrad(part, 5, 5 + width + 3, later), *Add(dx, later));
    }
  }
}

}  // namespace
}  // namespace dpipe::ops
