#include "core/ops/embedding/embedding.h"

#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

Tensor Ids(const std::shared_ptr<Device>& device) {
  return Tensor::FromHost<int32_t>(device, {2, 3}, {0, 4, 4, 2, 4, 0});
}

class EmbeddingTest : public ::testing::TestWithParam<DType> {};

TEST_P(EmbeddingTest, CpuAgreesWithReference) {
  const auto cpu = Device::Cpu(), ref = Device::CpuReference();
  cpu->allocator().set_poison(true);
  const Tensor table = RandomTensor(cpu, {5, 37}, DType::kF32, 1);
  const Tensor positions = RandomTensor(cpu, {4, 37}, DType::kF32, 2);
  for (const Tensor& p : {positions, Tensor()}) {
    // One addition: the same rounding in fp32; in bf16 the rounded exact sum may be an adjacent
    // number.
    ExpectClose(*EmbeddingForward(Ids(cpu), table, p, GetParam()),
                *EmbeddingForward(Ids(ref), OnDevice(ref, table), OnDevice(ref, p), GetParam()),
                {GetParam() == DType::kF32 ? 0 : 1.0 / 128, 0});
  }
  const Tensor dy = RandomTensor(cpu, {2, 3, 37}, GetParam(), 3);
  Tensor dtable = RandomTensor(cpu, {5, 37}, DType::kF32, 4);
  Tensor dpositions = RandomTensor(cpu, {4, 37}, DType::kF32, 5);
  Tensor dtable_ref = OnDevice(ref, dtable), dpositions_ref = OnDevice(ref, dpositions);
  ASSERT_TRUE(EmbeddingWeightGrad(Ids(cpu), dy, &dtable, &dpositions).ok());
  ASSERT_TRUE(EmbeddingWeightGrad(Ids(ref), OnDevice(ref, dy), &dtable_ref, &dpositions_ref).ok());
  // Up to four fp32 additions of values of size 3.
  ExpectClose(dtable, dtable_ref, {1e-6, 1e-6});
  ExpectClose(dpositions, dpositions_ref, {1e-6, 1e-6});
}

INSTANTIATE_TEST_SUITE_P(DTypes, EmbeddingTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(EmbeddingByHandTest, RowsPlusPositions) {
  const auto cpu = Device::Cpu();
  const Tensor ids = Tensor::FromHost<int32_t>(cpu, {1, 2}, {1, 0});
  const Tensor table = Tensor::FromHost<float>(cpu, {2, 1}, {10, 20});
  const Tensor positions = Tensor::FromHost<float>(cpu, {3, 1}, {1, 2, 3});
  EXPECT_EQ(Values(*EmbeddingForward(ids, table, positions, DType::kF32)),
            (std::vector<double>{21, 12}));
}

TEST(EmbeddingByHandTest, GradientsAddIntoRepeatedRows) {
  const auto cpu = Device::Cpu();
  const Tensor dy = Tensor::FromHost<float>(cpu, {2, 3, 1}, {1, 2, 3, 4, 5, 6});
  Tensor dtable = Tensor::FromHost<float>(cpu, {5, 1}, {100, 0, 0, 0, 0});
  Tensor dpositions = Tensor::Zeros(cpu, {3, 1}, DType::kF32);
  ASSERT_TRUE(EmbeddingWeightGrad(Ids(cpu), dy, &dtable, &dpositions).ok());
  EXPECT_EQ(Values(dtable), (std::vector<double>{107, 0, 4, 0, 10}));
  EXPECT_EQ(Values(dpositions), (std::vector<double>{5, 7, 9}));
  ASSERT_TRUE(EmbeddingWeightGrad(Ids(cpu), dy, nullptr, nullptr).ok());
}

TEST(EmbeddingByHandTest, IdOutsideTheTableIsAnError) {
  const auto cpu = Device::Cpu();
  const Tensor table = Tensor::Zeros(cpu, {4, 2}, DType::kF32);
  const absl::Status status = EmbeddingForward(Ids(cpu), table, Tensor(), DType::kF32).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "token 1 of sample 0 has id 4; the table has 4 rows");
  const Tensor negative = Tensor::FromHost<int32_t>(cpu, {1, 1}, {-1});
  EXPECT_FALSE(EmbeddingForward(negative, table, Tensor(), DType::kF32).ok());
  Tensor dtable = Tensor::Zeros(cpu, {4, 2}, DType::kF32);
  const Tensor dy = Tensor::Zeros(cpu, {1, 1, 2}, DType::kF32);
  EXPECT_FALSE(EmbeddingWeightGrad(negative, dy, &dtable, nullptr).ok());
}

}  // namespace
}  // namespace dpipe::ops
