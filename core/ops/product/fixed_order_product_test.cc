#include "core/ops/product/fixed_order_product.h"

#include <cstring>
#include <thread>
#include <vector>

#include "core/base/host/usable_cpus.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops::cpu {
namespace {

class FixedOrderProductTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasFixedOrderProduct()) GTEST_SKIP() << "this CPU lacks AVX2 or fused multiply-adds";
  }
};

struct Factors {
  Factors(bool transpose, int64_t rows, int64_t columns, int64_t depth)
      : transpose_b(transpose),
        n(columns),
        k(depth),
        a(RandomTensor(Device::Cpu(), {rows, k}, DType::kF32, 1)),
        b(RandomTensor(Device::Cpu(), {n, k}, DType::kF32, 2)),
        bias(RandomTensor(Device::Cpu(), {n}, DType::kF32, 3)) {}

  // Element p of column j of B.
  float B(int64_t p, int64_t j) const {
    return b.data<float>()[transpose_b ? j * k + p : p * n + j];
  }

  // Rows [begin, end) of the product.
  std::vector<float> Product(int64_t begin, int64_t end, bool with_bias,
                             const Device& device = *Device::Cpu()) const {
    std::vector<float> c((end - begin) * n, std::nanf(""));
    FixedOrderProduct(device, transpose_b, end - begin, n, k, a.data<float>() + begin * k, k,
                      b.data<float>(), transpose_b ? k : n,
                      with_bias ? bias.data<float>() : nullptr, c.data(), n);
    return c;
  }

  bool transpose_b;
  int64_t n, k;
  Tensor a, b, bias;
};

// Around a tile's 6 rows and 16 columns, a piece's 252 rows, a panel's 256.
constexpr int64_t kRows[] = {1, 5, 6, 7, 252, 259};
constexpr int64_t kColumns[] = {1, 15, 16, 17, 40};
constexpr int64_t kDepths[] = {1, 7, 8, 30, 256, 515};

TEST_F(FixedOrderProductTest, IsOneChainOfFusedMultiplyAdds) {
  for (bool transpose_b : {false, true}) {
    for (int64_t n : kColumns) {
      for (int64_t k : kDepths) {
        const Factors f(transpose_b, kRows[5], n, k);
        for (bool with_bias : {false, true}) {
          std::vector<float> expected;
          for (int64_t i = 0; i < kRows[5]; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              float sum = with_bias ? f.bias.data<float>()[j] : 0;
              for (int64_t p = 0; p < k; ++p) {
                sum = std::fma(f.a.data<float>()[i * k + p], f.B(p, j), sum);
              }
              expected.push_back(sum);
            }
          }
          for (int64_t rows : kRows) {
            const std::vector<float> c = f.Product(0, rows, with_bias);
            ASSERT_EQ(std::memcmp(c.data(), expected.data(), c.size() * sizeof(float)), 0)
                << "[" << rows << ", " << k << "] [" << k << ", " << n << "]";
          }
        }
      }
    }
  }
}

TEST_F(FixedOrderProductTest, SameBitsOnSeveralThreads) {
  for (int64_t rows : kRows) {
    for (int64_t n : kColumns) {
      const Factors f(true, rows, n, 30);
      const std::vector<float> expected = f.Product(0, rows, true);
      std::thread worker([&] {
        const auto several = Device::Cpu(std::vector<int>(3, AllowedCores()[0]));
        ASSERT_TRUE(several->BindThread().ok());
        EXPECT_EQ(f.Product(0, rows, true, *several), expected) << rows << " rows, " << n;
      });
      worker.join();
    }
  }
}

// Two adjacent matrices, like the heads of attention.
TEST_F(FixedOrderProductTest, RowsMayBeApart) {
  constexpr int64_t kWidth = 3, kStride = 2 * kWidth;
  const std::vector<float> a = {1, 2, 3, -1, -1, -1, 4, 5, 6, -1, -1, -1},
                           b = {1, 0, 2, -1, -1, -1, 0, 1, 3, -1, -1, -1, 1, 1, 1, -1, -1, -1};
  for (bool transpose_b : {false, true}) {
    std::vector<float> c(2 * kStride, 9);
    FixedOrderProduct(*Device::Cpu(), transpose_b, 2, kWidth, kWidth, a.data(), kStride, b.data(),
                      kStride, nullptr, c.data(), kStride);
    EXPECT_EQ(c, transpose_b ? (std::vector<float>{7, 11, 6, 9, 9, 9, 16, 23, 15, 9, 9, 9})
                             : (std::vector<float>{4, 5, 11, 9, 9, 9, 10, 11, 29, 9, 9, 9}));
  }
}

TEST_F(FixedOrderProductTest, NothingAddedUpIsTheBias) {
  const Factors f(false, 2, 3, 0);
  EXPECT_EQ(f.Product(0, 2, false), std::vector<float>(6, 0.0f));
  EXPECT_EQ(f.Product(1, 2, true),
            std::vector<float>(f.bias.data<float>(), f.bias.data<float>() + 3));
  EXPECT_TRUE(f.Product(1, 1, true).empty());
}

}  // namespace
}  // namespace dpipe::ops::cpu
