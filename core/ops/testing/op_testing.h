// Helpers for tests of ops: random tensors, comparison with a tolerance, finite differences.
#ifndef DPIPE_CORE_OPS_TESTING_OP_TESTING_H_
#define DPIPE_CORE_OPS_TESTING_OP_TESTING_H_

#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "core/base/philox.h"
#include "core/tensor/tensor.h"
#include "gtest/gtest.h"

namespace dpipe::ops {

// |actual - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double relative;
  double absolute;
};

// Returns standard normal values times `scale`, plus `offset`, rounded to `dtype`.
inline Tensor RandomTensor(const std::shared_ptr<Device>& device, const Shape& shape, DType dtype,
                           uint64_t seed, float scale = 1, float offset = 0) {
  RandomStream random(seed, 0, 0, RandomPurpose::kTest);
  Tensor t = Tensor::Empty(device, shape, DType::kF32);
  for (float& v : t.span<float>()) v = offset + scale * random.NextNormal();
  return dtype == DType::kF32 ? t : t.To(dtype);
}

// Returns a copy of the elements on another device.
inline Tensor OnDevice(const std::shared_ptr<Device>& device, const Tensor& t) {
  if (!t.defined()) return t;
  Tensor copy = Tensor::Empty(device, t.shape(), t.dtype());
  copy.CopyFrom(t);
  return copy;
}

inline std::vector<double> Values(const Tensor& t) {
  const Tensor f = t.dtype() == DType::kBf16 ? t.To(DType::kF32) : t;
  std::vector<double> values(f.num_elements());
  for (int64_t i = 0; i < f.num_elements(); ++i) {
    values[i] = f.dtype() == DType::kI32 ? f.data<int32_t>()[i] : f.data<float>()[i];
  }
  return values;
}

inline void ExpectClose(const Tensor& actual, const Tensor& expected, Tolerance tolerance) {
  ASSERT_EQ(actual.shape(), expected.shape());
  ASSERT_TRUE(actual.dtype() == expected.dtype());
  const std::vector<double> a = Values(actual), e = Values(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    // Written so that a NaN fails.
    ASSERT_TRUE(std::abs(a[i] - e[i]) <= tolerance.absolute + tolerance.relative * std::abs(e[i]))
        << "element " << i << " of " << actual.shape() << ": " << a[i] << " against " << e[i];
  }
}

inline void ExpectSameBits(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  ASSERT_TRUE(a.dtype() == b.dtype());
  EXPECT_EQ(std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()), 0);
}

// Returns the sum of weights * y in double, a scalar whose gradient to y is `weights`.
inline double Dot(const Tensor& weights, const Tensor& y) {
  const std::vector<double> w = Values(weights), v = Values(y);
  double sum = 0;
  for (size_t i = 0; i < w.size(); ++i) sum += w[i] * v[i];
  return sum;
}

// Checks an analytic gradient (fp32) of `loss` at x (fp32) against central differences at up to 64
// evenly spaced elements. With values of order 1, step h and fp32 results, the differences have
// about h^2 of truncation error and 1e-7 / h of rounding error; h = 1e-2 leaves 1e-4 of the first
// and 1e-5 of the second.
inline void ExpectGradient(const std::function<double(const Tensor& x)>& loss, const Tensor& x,
                           const Tensor& gradient, Tolerance tolerance = {2e-3, 2e-3},
                           float step = 1e-2f) {
  ASSERT_EQ(gradient.shape(), x.shape());
  const std::vector<double> g = Values(gradient);
  const int64_t stride = std::max<int64_t>(1, x.num_elements() / 64);
  for (int64_t i = 0; i < x.num_elements(); i += stride) {
    Tensor moved = x.Clone();
    float& value = moved.data<float>()[i];
    const float original = value;
    const float high = original + step, low = original - step;
    value = high;
    const double above = loss(moved);
    value = low;
    const double below = loss(moved);
    const double slope = (above - below) / (double{high} - double{low});
    ASSERT_TRUE(std::abs(g[i] - slope) <= tolerance.absolute + tolerance.relative * std::abs(slope))
        << "element " << i << " of " << x.shape() << ": " << g[i] << " against " << slope;
  }
}

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_TESTING_OP_TESTING_H_
