#include "core/ops/elementwise/elementwise.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

// One or two fp32 operations: 2^-23 relative; cancellation leaves 2^-24 of the summands' size (3).
// bf16: adjacent numbers, up to 2^-7 apart.
Tolerance For(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{2.5e-7, 5e-7} : Tolerance{1.0 / 128, 5e-7};
}

class AddTest : public ::testing::TestWithParam<DType> {
 protected:
  AddTest() { cpu_->allocator().set_poison(true); }
  Tensor Random(const Shape& shape, uint64_t seed) const {
    return RandomTensor(cpu_, shape, GetParam(), seed);
  }
  Tensor Ref(const Tensor& t) const { return OnDevice(ref_, t); }

  std::shared_ptr<Device> cpu_ = Device::Cpu();
  std::shared_ptr<Device> ref_ = Device::CpuReference();
};

TEST_P(AddTest, CpuAgreesWithReference) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 5, 7, 13}, Shape{2, 301, 77}}) {
    const Tensor x = Random(shape, 1), y = Random(shape, 2);
    const Tensor v = Random({shape[0], shape[-1]}, 3);
    ExpectClose(*Add(x, y), *Add(Ref(x), Ref(y)), For(GetParam()));
    ExpectClose(*AddChannels(x, v), *AddChannels(Ref(x), Ref(v)), For(GetParam()));
    ExpectClose(*Scale(0.7f, x), *Scale(0.7f, Ref(x)), For(GetParam()));
    // 128 terms of size 1 are summed in fp32: at worst 128 * 2^-24.
    Tolerance sums = For(GetParam());
    sums.absolute = 1e-5;
    ExpectClose(*AddChannelsVectorGrad(x), *AddChannelsVectorGrad(Ref(x)), sums);
  }
}

// A million equal terms: adding each to one fp32 sum would give an error of 1 %.
TEST(AddLongSumTest, ErrorDoesNotGrowWithLength) {
  const auto cpu = Device::Cpu();
  const int64_t n = 1 << 20;
  for (int64_t channels : {1, 8, 33}) {
    Tensor x = Tensor::Empty(cpu, {1, n, channels}, DType::kF32);
    for (float& v : x.span<float>()) v = 0.1f;
    for (double sum : Values(*AddChannelsVectorGrad(x))) EXPECT_NEAR(sum / (n * 0.1), 1, 1e-6);
  }
}

TEST_P(AddTest, AxpyAddsIntoItsTarget) {
  const Tensor x = Random({5, 41}, 4);
  for (DType dtype : {GetParam(), DType::kF32}) {
    Tensor y = RandomTensor(cpu_, {5, 41}, dtype, 5);
    Tensor y_ref = OnDevice(ref_, y);
    ASSERT_TRUE(Axpy(-0.3f, x, &y).ok());
    ASSERT_TRUE(Axpy(-0.3f, Ref(x), &y_ref).ok());
    ExpectClose(y, y_ref, For(dtype));
  }
}

TEST_P(AddTest, SampleDoesNotDependOnItsNeighbours) {
  const Tensor x = Random({4, 3, 5, 19}, 6), v = Random({4, 19}, 7);
  ExpectSameBits(*AddChannels(x.Slice(1, 3), v.Slice(1, 3)), AddChannels(x, v)->Slice(1, 3));
  ExpectSameBits(*AddChannelsVectorGrad(x.Slice(1, 3)), AddChannelsVectorGrad(x)->Slice(1, 3));
}

INSTANTIATE_TEST_SUITE_P(DTypes, AddTest, ::testing::Values(DType::kF32, DType::kBf16));

TEST(AddReferenceTest, VectorGradientAgreesWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {2, 3, 4, 5}, DType::kF32, 8);
  const Tensor v = RandomTensor(ref, {2, 5}, DType::kF32, 9);
  const Tensor dy = RandomTensor(ref, x.shape(), DType::kF32, 10);
  ExpectGradient([&](const Tensor& t) { return Dot(dy, *AddChannels(x, t)); }, v,
                 *AddChannelsVectorGrad(dy));
}

TEST(AddReferenceTest, ChannelVectorIsPerSample) {
  const auto ref = Device::CpuReference();
  const Tensor x = Tensor::Zeros(ref, {2, 2, 2}, DType::kF32);
  const Tensor v = Tensor::FromHost<float>(ref, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(Values(*AddChannels(x, v)), (std::vector<double>{1, 2, 1, 2, 3, 4, 3, 4}));
}

}  // namespace
}  // namespace dpipe::ops
