#include "core/ops/embedding/embedding.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

TEST(SelectTokenTest, TakesTheFirstToken) {
  const auto cpu = Device::Cpu();
  cpu->allocator().set_poison(true);
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    const Tensor x = RandomTensor(cpu, {4, 3, 5}, dtype, 1);
    const Tensor ids = Tensor::FromHost<int32_t>(cpu, {4, 3}, {7, 2, 2, 2, 9, 9, 1, 3, 2, 4, 5, 4});
    const auto row = [&](const Tensor& t, int64_t b, int64_t token) {
      return t.Slice(b, b + 1).Reshape({3, 5}).Slice(token, token + 1);
    };
    const Tensor named = *SelectTokenForward(2, ids, x), largest = *SelectTokenForward({}, ids, x);
    const int64_t positions[] = {1, 0, 2, 0}, largest_positions[] = {0, 1, 1, 1};
    for (int64_t b = 0; b < 4; ++b) {
      ExpectSameBits(named.Slice(b, b + 1), row(x, b, positions[b]));
      ExpectSameBits(largest.Slice(b, b + 1), row(x, b, largest_positions[b]));
    }
    const Tensor dy = RandomTensor(cpu, {4, 5}, dtype, 2);
    const Tensor dx = *SelectTokenInputGrad(2, ids, dy);
    for (int64_t b = 0; b < 4; ++b) {
      for (int64_t t = 0; t < 3; ++t) {
        const Tensor expected =
            t == positions[b] ? dy.Slice(b, b + 1) : Tensor::Zeros(cpu, {1, 5}, dtype);
        ExpectSameBits(row(dx, b, t), expected);
      }
    }
  }
}

}  // namespace
}  // namespace dpipe::ops
