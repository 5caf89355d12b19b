#include "core/ops/onednn/onednn.h"

#include "core/ops/testing/op_testing.h"

namespace dpipe::ops::onednn {
namespace {

TEST(OneDnnTest, ExceptionsBecomeStatuses) {
  const absl::Status status = Guard("multiplying", [] {
    // Inner sizes 3 and 4 do not match.
    const auto f32 = dnnl::memory::data_type::f32;
    Describe<dnnl::matmul>(UserScratchpad(), Desc({2, 3}, f32, Tag::ab), Desc({4, 5}, f32, Tag::ab),
                           Desc({2, 5}, f32, Tag::ab));
  });
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.message(), "multiplying: oneDNN: invalid_arguments");
}

TEST(OneDnnTest, GemmByHand) {
  // Rows of 3 in memory; the last column is not part of the matrix.
  const std::vector<float> a = {1, 2, -1, 3, 4, -1}, b = {5, 6, -1, 7, 8, -1};
  const auto multiply = [&](bool transpose_a, bool transpose_b) {
    std::vector<float> c = {1, 0, 100, 0, 0, 100};
    EXPECT_TRUE(
        Gemm(transpose_a, transpose_b, 2, 2, 2, a.data(), 3, b.data(), 3, 1.0f, c.data(), 3).ok());
    return c;
  };
  EXPECT_EQ(multiply(false, false), (std::vector<float>{20, 22, 100, 43, 50, 100}));
  EXPECT_EQ(multiply(true, false), (std::vector<float>{27, 30, 100, 38, 44, 100}));
  EXPECT_EQ(multiply(false, true), (std::vector<float>{18, 23, 100, 39, 53, 100}));
}

TEST(OneDnnTest, WeightsArePreparedOncePerForm) {
  const auto cpu = Device::Cpu();
  Weight w(RandomTensor(cpu, {2, 3}, DType::kF32, 1));
  const auto f32 = dnnl::memory::data_type::f32;
  const Desc plain({2, 3}, f32, Tag::ab), transposed({2, 3}, f32, Tag::ba);
  EXPECT_EQ(WeightForm(plain, plain).Get(w)->raw_data(), w.master().raw_data());
  EXPECT_EQ(w.prepared_bytes(), 0);

  const Desc bf16({2, 3}, dnnl::memory::data_type::bf16, Tag::ba);
  const WeightForm form(plain, transposed), same(plain, transposed), narrow(plain, bf16);
  EXPECT_EQ(form.Get(w)->raw_data(), same.Get(w)->raw_data());
  EXPECT_NE(form.Get(w)->raw_data(), narrow.Get(w)->raw_data());
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 3; ++c) {
      const float value = w.master().data<float>()[r * 3 + c];
      EXPECT_EQ(form.Get(w)->data<float>()[c * 2 + r], value);
      const Bf16* const bits = static_cast<const Bf16*>(narrow.Get(w)->raw_data());
      EXPECT_EQ(bits[c * 2 + r].bits, Bf16(value).bits);
    }
  }
}

TEST(OneDnnTest, PrimitivesAreMadeOncePerKey) {
  PrimitiveCache<int> cache;
  int made = 0;
  const auto make = [&] { return ++made; };
  EXPECT_EQ(**cache.Get("test", {1, 2}, make), 1);
  EXPECT_EQ(**cache.Get("test", {1, 3}, make), 2);
  EXPECT_EQ(**cache.Get("test", {1, 2}, make), 1);
  const auto fail = []() -> int { throw dnnl::error(dnnl_unimplemented, "no"); };
  EXPECT_EQ(cache.Get("test", {9}, fail).status().message(), "test: oneDNN: unimplemented");
  EXPECT_EQ(**cache.Get("test", {9}, make), 3);
}

}  // namespace
}  // namespace dpipe::ops::onednn
