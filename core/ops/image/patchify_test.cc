#include "core/ops/image/rearrange.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

// Two pixels high and four wide, with two channels: pixel i has 10 i and 10 i + 1.
TEST(PatchifyTest, Orders) {
  const auto cpu = Device::Cpu();
  const Tensor x = Tensor::FromHost<float>(
      cpu, {1, 2, 4, 2}, {0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61, 70, 71});
  EXPECT_EQ(Values(*Patchify(PatchOrder::kChannelFirst, 2, x)),
            (std::vector<double>{0, 10, 40, 50, 1, 11, 41, 51, 20, 30, 60, 70, 21, 31, 61, 71}));
  EXPECT_EQ(Values(*Patchify(PatchOrder::kPixelFirst, 2, x)),
            (std::vector<double>{0, 1, 10, 11, 40, 41, 50, 51, 20, 21, 30, 31, 60, 61, 70, 71}));
}

TEST(PatchifyTest, UnpatchifyUndoesIt) {
  for (const auto& device : {Device::Cpu(), Device::CpuReference()}) {
    device->allocator().set_poison(true);
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      for (const PatchOrder order : {PatchOrder::kChannelFirst, PatchOrder::kPixelFirst}) {
        for (const int64_t size : {1, 2, 3}) {
          const Tensor x = RandomTensor(device, {2, 6, 12, 5}, dtype, 1);
          const Tensor patches = *Patchify(order, size, x);
          EXPECT_EQ(patches.shape(), (Shape{2, 72 / size / size, 5 * size * size}));
          ExpectSameBits(*Unpatchify(order, size, 6, 12, patches), x);
        }
      }
    }
  }
}

}  // namespace
}  // namespace dpipe::ops
