#include "core/ops/product/block_codes.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/ops/cuda/emulated_gpu/emulated_device.h"
#include "core/ops/product/conv2d.h"
#include "core/ops/product/linear.h"
#include "core/ops/testing/op_testing.h"

namespace dpipe::ops {
namespace {

std::vector<std::shared_ptr<Device>> AllDevices() {
  return {Device::CpuReference(), Device::Cpu(), std::make_shared<cuda::EmulatedDevice>()};
}

// Numbers with a block of zeros, one of subnormal numbers, one of large ones, and a partial one.
Tensor Mixed() {
  Tensor values = RandomTensor(Device::Cpu(), {5, 203}, DType::kF32, 1);
  float* const x = values.data<float>();
  std::fill_n(x + 64, 64, 0.0f);
  for (int i = 128; i < 192; ++i) x[i] *= 1e-42f;
  for (int i = 192; i < 256; ++i) x[i] *= 1e37f;
  return values;
}

TEST(BlockCodesTest, NumbersAreWithinHalfAScale) {
  const Tensor values = Mixed();
  const int64_t n = values.num_elements();
  BlockCodes blocks(Device::Cpu(), n);
  blocks.Encode(values);
  Tensor decoded = Tensor::Empty(Device::Cpu(), values.shape(), DType::kF32);
  blocks.DecodeTo(&decoded);
  ASSERT_EQ(blocks.scales.num_elements(), 16);
  EXPECT_EQ(BlockCodes::SizeBytes(n), 1016 + 16 * 4);
  for (int64_t block = 0; block < CodeBlocks(n); ++block) {
    const double scale = blocks.scales.data<float>()[block];
    double max = 0;
    for (int64_t i = block * 64; i < std::min(n, (block + 1) * 64); ++i) {
      const double x = values.data<float>()[i];
      max = std::max(max, std::abs(x));
      // The quotient is rounded before it is rounded to a code.
      EXPECT_LE(std::abs(x - decoded.data<float>()[i]), scale / 2 * (1 + 1e-5)) << i;
    }
    EXPECT_GE(scale * 127, max) << block;
    const double granule = std::ldexp(1.0, -141);  // of the smallest scales
    EXPECT_LE(scale, max / 127 * (1 + std::ldexp(1.0, -15)) + granule) << block;
  }
}

TEST(BlockCodesTest, DecodedNumbersAreKeptExactly) {
  const Tensor values = Mixed();
  BlockCodes first(Device::Cpu(), values.num_elements()), second = first;
  second = BlockCodes(Device::Cpu(), values.num_elements());
  first.Encode(values);
  Tensor decoded = Tensor::Empty(Device::Cpu(), values.shape(), DType::kF32);
  first.DecodeTo(&decoded);
  second.Encode(decoded);
  ExpectSameBits(first.codes, second.codes);
  ExpectSameBits(first.scales, second.scales);
}

TEST(BlockCodesTest, AllDevicesDecodeTheSameBits) {
  const Tensor values = Mixed();
  for (const auto& device : AllDevices()) {
    SCOPED_TRACE(device->name());
    Weight here(Device::Cpu(), values.shape(), WeightStorage::kInt8);
    Weight there(device, values.shape(), WeightStorage::kInt8);
    here.Assign(values);
    there.Assign(values);
    ExpectSameBits(there.As(DType::kF32).ToHost(), here.As(DType::kF32));
    ExpectSameBits(there.As(DType::kBf16).ToHost(), here.As(DType::kF32).To(DType::kBf16));
    Weight copy(device, values.shape(), WeightStorage::kInt8);
    copy.Assign(here);
    ExpectSameBits(copy.As(DType::kF32).ToHost(), here.As(DType::kF32));
    copy.FillZero();
    for (double x : Values(copy.As(DType::kF32).ToHost())) EXPECT_EQ(x, 0);
  }
}

class StoredWeightTest : public ::testing::TestWithParam<WeightStorage> {
 protected:
  static Tensor Normal(const Shape& shape, uint64_t seed, float scale = 1) {
    return RandomTensor(Device::Cpu(), shape, DType::kF32, seed, scale);
  }
};

// The bits are those of a weight whose master has the decoded values.
TEST_P(StoredWeightTest, ProductsAreThoseOfTheDecodedValues) {
  for (const auto& device : AllDevices()) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(absl::StrCat(device->name(), " ", std::string(DTypeName(dtype))));
      const auto there = [&](const Tensor& t) { return OnDevice(device, t.To(dtype)); };
      const Tensor bias = OnDevice(device, Normal({40}, 3));
      {
        Weight w(device, {40, 72}, GetParam());
        w.Assign(Normal({40, 72}, 1, 0.1f));
        const Weight plain(w.As(DType::kF32).Clone());
        const Tensor x = there(Normal({3, 7, 72}, 2)), dy = there(Normal({3, 7, 40}, 4));
        ExpectSameBits(LinearForward(x, w, bias)->ToHost(),
                       LinearForward(x, plain, bias)->ToHost());
        ExpectSameBits(LinearInputGrad(dy, w)->ToHost(), LinearInputGrad(dy, plain)->ToHost());
        EXPECT_EQ(w.prepared_bytes(), 0);
      }
      Weight w(device, {40, 8, 3, 3}, GetParam());
      w.Assign(Normal({40, 8, 3, 3}, 1, 0.1f));
      const Weight plain(w.As(DType::kF32).Clone());
      const Conv2dParams params = Conv2dSymmetric(1, 1);
      const Tensor x = there(Normal({2, 6, 5, 8}, 2)), dy = there(Normal({2, 6, 5, 40}, 4));
      ExpectSameBits(Conv2dForward(params, x, w, bias)->ToHost(),
                     Conv2dForward(params, x, plain, bias)->ToHost());
      ExpectSameBits(Conv2dInputGrad(params, dy, w, x.shape())->ToHost(),
                     Conv2dInputGrad(params, dy, plain, x.shape())->ToHost());
      EXPECT_EQ(w.prepared_bytes(), 0);
    }
  }
}

// |y' - y| <= sum |x| |w' - w|, where |w' - w| is at most half a scale, and 2^-9 of w in bf16. The
// sums' own rounding is below 1e-6 of the sum of |x| |w|.
TEST_P(StoredWeightTest, ErrorOfProductsIsBoundedByThatOfTheWeights) {
  const int64_t rows = 32, in = 512, out = 320;
  const Tensor values = Normal({out, in}, 1, 0.05f), x = Normal({rows, in}, 2);
  const Tensor dy = Normal({rows, out}, 3);
  Weight stored(Device::Cpu(), {out, in}, GetParam());
  stored.Assign(values);
  const Weight exact(values);
  std::vector<double> errors(out * in);
  for (int64_t block = 0; block < out * in / 64; ++block) {
    double max = 0;
    for (int64_t i = block * 64; i < (block + 1) * 64; ++i) {
      max = std::max<double>(max, std::abs(values.data<float>()[i]));
    }
    for (int64_t i = block * 64; i < (block + 1) * 64; ++i) {
      errors[i] = GetParam() == WeightStorage::kInt8
                      ? max / 127 / 2 * (1 + 1e-4)
                      : std::abs(values.data<float>()[i]) * std::ldexp(1.0, -9) * (1 + 1e-2);
    }
  }
  const auto check = [&](const Tensor& actual, const Tensor& expected, const Tensor& from,
                         bool transposed) {
    const int64_t n = transposed ? in : out, k = transposed ? out : in;
    double squares = 0, error_squares = 0;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        double bound = 0;
        for (int64_t j = 0; j < k; ++j) {
          const int64_t at = transposed ? j * in + c : c * in + j;
          bound += std::abs(from.data<float>()[r * k + j]) *
                   (errors[at] + 1e-6 * std::abs(values.data<float>()[at]));
        }
        const double e = expected.data<float>()[r * n + c];
        const double difference = actual.data<float>()[r * n + c] - e;
        EXPECT_LE(std::abs(difference), bound) << r << ", " << c;
        squares += e * e;
        error_squares += difference * difference;
      }
    }
    return std::sqrt(error_squares / squares);
  };
  // Of 64 normal numbers the largest is about 2.6 standard deviations: the codes are 0.02 of one
  // apart, so errors are 0.02 / sqrt(12) = 0.6 %. Rounding to bf16 errs by 2^-9 / sqrt(3) of the
  // next power of two at most, 0.11 % to 0.17 % with normal numbers.
  const double expected = GetParam() == WeightStorage::kInt8 ? 0.006 : 0.0014;
  for (const double relative :
       {check(*LinearForward(x, stored, Tensor()), *LinearForward(x, exact, Tensor()), x, false),
        check(*LinearInputGrad(dy, stored), *LinearInputGrad(dy, exact), dy, true)}) {
    EXPECT_GT(relative, expected * 0.75);
    EXPECT_LT(relative, expected * 1.25);
  }
}

INSTANTIATE_TEST_SUITE_P(Storages, StoredWeightTest,
                         ::testing::Values(WeightStorage::kBf16, WeightStorage::kInt8),
                         [](const ::testing::TestParamInfo<WeightStorage>& info) {
                           return std::string(WeightStorageName(info.param));
                         });

}  // namespace
}  // namespace dpipe::ops
