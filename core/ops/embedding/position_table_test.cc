#include "core/ops/embedding/positions.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

TEST(PositionTableTest, AgreesWithTheDefinition) {
  for (const auto& device : {Device::Cpu(), Device::CpuReference()}) {
    device->allocator().set_poison(true);
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      const PositionTableParams params = {3, 4, 9, 6};
      const int64_t width = 20;
      const Tensor x = RandomTensor(device, {2, 12, width}, dtype, 1);
      const std::vector<double> before = Values(x), after = Values(*AddPositionTable(params, x));
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        const int64_t token = i / width % 12, c = i % width;
        // Three rows and four columns of nine: rows 3 to 5, columns 2 to 5.
        const double index = c < width / 2 ? 2 + token % 4 : 3 + token / 4;
        const double angle = index * 6 / 9 * std::pow(10000, -static_cast<double>(c % 5) / 5);
        const double expected = before[i] + (c % 10 < 5 ? std::sin(angle) : std::cos(angle));
        const double tolerance =
            dtype == DType::kF32 ? 1e-6 : 1.0 / 256 * std::abs(expected) + 1e-6;
        ASSERT_NEAR(after[i], expected, tolerance) << i;
      }
    }
  }
}

}  // namespace
}  // namespace dpipe::ops
