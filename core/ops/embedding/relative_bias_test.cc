#include "core/ops/embedding/positions.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

// The distances at which transformers' T5Attention._relative_position_bucket(bidirectional=True,
// num_buckets=32, max_distance=128) goes on to the next bucket.
TEST(RelativeBiasTest, BucketsOfT5) {
  const int64_t first[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  int bucket = 0;
  for (int64_t distance = 0; distance <= 700; ++distance) {
    if (bucket < 15 && distance == first[bucket + 1]) ++bucket;
    EXPECT_EQ(RelativeBucket({}, -distance), bucket) << distance;
    if (distance > 0) {
      EXPECT_EQ(RelativeBucket({}, distance), 16 + bucket) << distance;
    }
  }
}

TEST(RelativeBiasTest, ByHand) {
  const auto cpu = Device::Cpu();
  RelativeBiasParams params;
  params.num_buckets = 4;  // offsets: 0, the other negative ones, -, positive ones
  params.max_distance = 4;
  params.queries = 3;
  params.keys = 2;
  const Tensor table = Tensor::FromHost<float>(cpu, {4, 2}, {1, 10, 2, 20, 3, 30, 4, 40});
  const Tensor bias = *RelativeBiasForward(params, 2, table);
  EXPECT_EQ(Values(bias),
            (std::vector<double>{2, 2, 1, 4, 20, 20, 10, 40, 2, 2, 1, 4, 20, 20, 10, 40}));
  Tensor dtable = Tensor::FromHost<float>(cpu, {4, 2}, {100, 0, 0, 0, 0, 0, 0, 0});
  const Tensor dbias = Tensor::FromHost<float>(
      cpu, {2, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40, 50, 60, 70, 80});
  ASSERT_TRUE(RelativeBiasWeightGrad(params, dbias, &dtable).ok());
  EXPECT_EQ(Values(dtable), (std::vector<double>{133, 77, 33, 121, 0, 0, 44, 88}));
}

TEST(RelativeBiasTest, GradientAgreesWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  RelativeBiasParams params;
  params.num_buckets = 8;
  params.max_distance = 10;
  params.queries = 14;
  params.keys = 17;
  const Tensor table = RandomTensor(ref, {8, 3}, DType::kF32, 1);
  const Tensor dbias = RandomTensor(ref, {2, 3, 30}, DType::kF32, 2);
  Tensor dtable = Tensor::Zeros(ref, {8, 3}, DType::kF32);
  ASSERT_TRUE(RelativeBiasWeightGrad(params, dbias, &dtable).ok());
  ExpectGradient([&](const Tensor& t) { return Dot(dbias, *RelativeBiasForward(params, 2, t)); },
                 table, dtable);
}

}  // namespace
}  // namespace dpipe::ops
