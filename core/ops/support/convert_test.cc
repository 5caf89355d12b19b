#include "core/ops/support/convert.h"

#include <cmath>
#include <limits>

#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

TEST(ConvertTest, EveryBf16IsWidenedExactlyAndComesBack) {
  const auto cpu = Device::Cpu();
  Tensor all = Tensor::Empty(cpu, {65536}, DType::kBf16);
  for (int i = 0; i < 65536; ++i) all.data<Bf16>()[i].bits = static_cast<uint16_t>(i);
  const Tensor wide = Widened(all);
  const Tensor back = Narrowed(wide);
  for (int i = 0; i < 65536; ++i) {
    const Bf16 original = all.data<Bf16>()[i];
    if (std::isnan(static_cast<float>(original))) {
      ASSERT_TRUE(std::isnan(wide.data<float>()[i]));
      ASSERT_TRUE(std::isnan(static_cast<float>(back.data<Bf16>()[i])));
    } else {
      ASSERT_EQ(wide.data<float>()[i], static_cast<float>(original));
      ASSERT_EQ(back.data<Bf16>()[i].bits, original.bits);
    }
  }
}

TEST(ConvertTest, RoundsAsBf16Does) {
  const auto cpu = Device::Cpu();
  Tensor x = RandomTensor(cpu, {20011}, DType::kF32, 1, 1e3f);
  const float special[] = {1.0f + 1.0f / 256,
                           1.0f + 3.0f / 256,
                           3.4e38f,
                           -3.4e38f,
                           1e-45f,
                           -0.0f,
                           std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::quiet_NaN()};
  std::copy(std::begin(special), std::end(special), x.data<float>());
  const Tensor narrow = Narrowed(x);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    ASSERT_EQ(narrow.data<Bf16>()[i].bits, Bf16(x.data<float>()[i]).bits) << x.data<float>()[i];
  }
}

TEST(ConvertTest, RowsLeaveTheGapsBetweenThemAlone) {
  const std::vector<float> from = {1, 2, 3, -1, 4, 5, 6, -1};
  std::vector<Bf16> to(10, Bf16(9.0f));
  NarrowRows(2, 3, from.data(), 4, to.data(), 5);
  const float expected[] = {1, 2, 3, 9, 9, 4, 5, 6, 9, 9};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(static_cast<float>(to[i]), expected[i]);
  std::vector<float> back(8, 7.0f);
  WidenRows(2, 3, to.data(), 5, back.data(), 4);
  EXPECT_EQ(back, (std::vector<float>{1, 2, 3, 7, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace dpipe::ops
