#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "core/ops/attention/attention.h"
#include "core/ops/cuda/direct_convolution.h"
#include "core/ops/cuda/parity.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/product/conv2d.h"
#include "core/ops/product/linear.h"
#include "gmock/gmock.h"

namespace dpipe::ops::cuda {
namespace {

class ProductsParityTest : public ParityTest {
 protected:
  // For sums of products of normal numbers: the scale of the weights keeps results of size 1. bf16
  // weights are the same on both devices, so only the rounding of fp32 sums matters.
  Tensor Weights(const Shape& shape, int64_t terms) {
    return Random(shape, DType::kF32, 1 / std::sqrt(static_cast<float>(terms)));
  }

  struct ConvolutionCase {
    Shape x, w;
    Conv2dParams params;
  };
  // Given x, w, bias and dy (also used as an addend), computes all results of a convolution.
  static absl::StatusOr<Tensors> Products(const ConvolutionCase& c, const Tensors& t) {
    const Weight w(t[1]);
    Tensor dw = t[1].Clone(), db = t[2].Clone(), dw_alone = t[1].Clone();
    DPIPE_RETURN_IF_ERROR(Conv2dWeightGrad(c.params, t[0], t[3], &dw, &db));
    DPIPE_RETURN_IF_ERROR(Conv2dWeightGrad(c.params, t[0], t[3], &dw_alone, nullptr));
    return Tensors{*Conv2dForward(c.params, t[0], w, t[2]),
                   *Conv2dForward(c.params, t[0], w, Tensor()),
                   *Conv2dForward(c.params, t[0], w, t[2], t[3]),
                   *Conv2dInputGrad(c.params, t[3], w, c.x),
                   dw,
                   db,
                   dw_alone};
  }
  void ExpectConvolution(const ConvolutionCase& c) {
    const Shape y = Conv2dOutputShape(c.params, c.x, c.w);
    const Tensors inputs = {Random(c.x), Weights(c.w, c.w.num_elements() / c.w[0]),
                            Random({c.w[0]}, DType::kF32), Random(y), Random({y[0], y[3]})};
    // On a GPU, cuDNN rounds the result to bf16 before the bias and the addend are added, and
    // rounds the filters' gradients, by up to 2^-9 of them. Without cuDNN, a per-sample vector is
    // added to a rounded product.
    const bool is_bf16 = GetParam() == DType::kBf16, rounded = !StreamOf(*device_).emulated;
    const Tolerance exact = {1e-5, 1e-4};
    const Tolerance loose = is_bf16 ? Tolerance{1.0 / 256, 6e-2} : exact;
    const auto products = [&](const Tensors& t) { return Products(c, t); };
    ExpectParity(inputs, rounded ? loose : exact, products);
    ExpectParity(inputs, loose, [&](const Tensors& t) -> absl::StatusOr<Tensors> {
      const Weight w(t[1]);
      return Tensors{*Conv2dForward(c.params, t[0], w, t[2], t[4]),
                     *Conv2dForward(c.params, t[0], w, Tensor(), t[4])};
    });
  }

  // Like ExpectConvolution, but compares a sample of each result's elements with sums in double.
  void ExpectSampledConvolution(const ConvolutionCase& c) {
    const Shape y = Conv2dOutputShape(c.params, c.x, c.w);
    const Tensors inputs = {Random(c.x), Weights(c.w, c.w.num_elements() / c.w[0]),
                            Random({c.w[0]}, DType::kF32), Random(y), Random({y[0], y[3]})};
    const auto compute = [&] {
      Tensors there, here;
      for (const Tensor& input : inputs) there.push_back(OnDevice(device_, input));
      const absl::StatusOr<Tensors> results = Products(c, there);
      EXPECT_TRUE(results.ok()) << results.status();
      if (!results.ok()) return here;
      for (const Tensor& result : *results) here.push_back(Here(result));
      here.push_back(
          Here(*Conv2dForward(c.params, there[0], Weight(there[1]), there[2], there[4])));
      return here;
    };
    const Tensors actual = compute(), again = compute();
    ASSERT_EQ(actual.size(), 8);
    ASSERT_EQ(again.size(), 8);
    for (size_t i = 0; i < actual.size(); ++i) ExpectSameBits(again[i], actual[i]);
    const DirectConvolution direct(c.params, inputs[0], inputs[1], inputs[3]);
    const std::vector<double> w = Values(inputs[1]), bias = Values(inputs[2]);
    const std::vector<double> addend = Values(inputs[3]), of_sample = Values(inputs[4]);
    const int64_t channels = y[3], image = y.num_elements() / y[0];
    const std::function<double(int64_t)> expected[] = {
        [&](int64_t i) { return direct.Y(i) + bias[i % channels]; },
        [&](int64_t i) { return direct.Y(i); },
        [&](int64_t i) { return direct.Y(i) + bias[i % channels] + addend[i]; },
        [&](int64_t i) { return direct.Dx(i); },
        [&](int64_t i) { return w[i] + direct.Dw(i); },
        [&](int64_t i) { return bias[i] + direct.Db(i); },
        [&](int64_t i) { return w[i] + direct.Dw(i); },
        [&](int64_t i) {
          return direct.Y(i) + bias[i % channels] + of_sample[i / image * channels + i % channels];
        }};
    for (size_t k = 0; k < actual.size(); ++k) {
      SCOPED_TRACE("result " + std::to_string(k));
      ExpectSampledElements(Values(actual[k]), expected[k]);
    }
  }

  // The strides are odd, so that samples cover all positions modulo the sizes of tiles.
  void ExpectSampledElements(const std::vector<double>& actual,
                             const std::function<double(int64_t)>& expected) {
    constexpr int64_t kSample = 1000;
    const bool is_bf16 = GetParam() == DType::kBf16;
    const Tolerance tolerance = is_bf16 ? Tolerance{3.0 / 256, 6e-2} : Tolerance{1e-5, 1e-4};
    const int64_t count = static_cast<int64_t>(actual.size());
    const int64_t stride = std::max<int64_t>(1, count / kSample) | 1;
    for (int64_t i = 0; i < count; i += stride) {
      const double exact = expected(i);
      // Written so that it fails for a NaN.
      ASSERT_TRUE(std::abs(actual[i] - exact) <=
                  tolerance.absolute + tolerance.relative * std::abs(exact))
          << "element " << i << " of " << count << ": " << actual[i] << " against " << exact;
    }
    for (const double value : actual) ASSERT_TRUE(std::isfinite(value));
  }

  struct AttentionCase {
    int64_t batch, queries, keys, width;
    int heads;
    bool causal;
  };
  void ExpectAttention(const AttentionCase& c) {
    AttentionParams params;
    params.num_heads = c.heads;
    params.scale = AttentionScale(c.width, c.heads);
    params.causal = c.causal;
    const Shape q = {c.batch, c.queries, c.width}, k = {c.batch, c.keys, c.width};
    // Probabilities and their gradients are rounded to bf16 between the products: 2^-9 of numbers
    // below 1. Their sums over keys or queries add errors of the same size.
    const Tolerance tolerance =
        GetParam() == DType::kF32 ? Tolerance{2e-5, 2e-5} : Tolerance{0, 3e-2};
    ExpectParity({Random(q), Random(k), Random(k), Random(q)}, tolerance,
                 [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                   const AttentionResult kept = *AttentionForward(params, in[0], in[1], in[2]);
                   const AttentionResult only =
                       *AttentionForward(params, in[0], in[1], in[2], /*keep_saved=*/false);
                   const AttentionGrads grads =
                       *AttentionInputGrad(params, in[3], in[0], in[1], in[2], kept.saved);
                   return Tensors{kept.y, only.y, grads.dq, grads.dk, grads.dv};
                 });
    // The bias's gradient sums up to 77 gradients of scores, of products that are rounded to bf16.
    // With a quarter of dy these gradients are below 3.
    const Tensor bias = Random({c.batch, c.heads, c.queries + c.keys - 1}, DType::kF32);
    ExpectParity({Random(q), Random(k), Random(k), Random(q, GetParam(), 0.25f), bias}, tolerance,
                 [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                   const AttentionResult kept =
                       *AttentionForward(params, in[0], in[1], in[2], true, in[4]);
                   const AttentionGrads grads =
                       *AttentionInputGrad(params, in[3], in[0], in[1], in[2], kept.saved, in[4]);
                   return Tensors{kept.y, grads.dq, grads.dk, grads.dv, grads.drelative_bias};
                 });
  }
};

TEST_P(ProductsParityTest, Linear) {
  struct Case {
    Shape x;
    int64_t out;
  };
  // Only for the third case does the product also compute the bias's gradient (ShouldSumRows).
  for (const Case& c :
       {Case{{1, 1}, 1}, Case{{3, 5, 7}, 9}, Case{{2, 36, 40}, 64}, Case{{3, 343, 5}, 7}}) {
    const int64_t in = c.x[-1];
    Shape y = c.x;
    y.Set(-1, c.out);
    // The bias has bf16 values, because cuBLASLt takes a bias in the result's type.
    const Tensor bias = Random({c.out}).To(DType::kF32);
    const Tensors inputs = {Random(c.x), Weights({c.out, in}, in), bias, Random(y)};
    ExpectParity(inputs, {1e-5, 1e-4}, [](const Tensors& t) -> absl::StatusOr<Tensors> {
      const Weight w(t[1]);
      Tensor dw = t[1].Clone(), db = t[2].Clone(), dw_alone = t[1].Clone();
      DPIPE_RETURN_IF_ERROR(LinearWeightGrad(t[0], t[3], &dw, &db));
      DPIPE_RETURN_IF_ERROR(LinearWeightGrad(t[0], t[3], &dw_alone, nullptr));
      return Tensors{*LinearForward(t[0], w, Tensor()),
                     *LinearForward(t[0], w, Tensor(), t[3]),
                     *LinearInputGrad(t[3], w),
                     *LinearInputGrad(t[3], w, t[0]),
                     dw,
                     db,
                     dw_alone};
    });
    // If rows are not whole words, cuBLASLt rounds the product before it adds a bias, by up to 2^-9
    // of numbers below 4 (seen on an H200). No model has such rows.
    const bool rounded = GetParam() == DType::kBf16 && !StreamOf(*device_).emulated &&
                         (in % 2 != 0 || c.out % 2 != 0);
    ExpectParity(
        inputs, {1e-5, rounded ? 1.0 / 128 : 1e-4},
        [](const Tensors& t) -> absl::StatusOr<Tensors> {
          const Weight w(t[1]);
          return Tensors{*LinearForward(t[0], w, t[2]), *LinearForward(t[0], w, t[2], t[3])};
        });
  }
}

TEST_P(ProductsParityTest, Conv2d) {
  const ConvolutionCase cases[] = {
      {{1, 1, 1, 1}, {1, 1, 1, 1}, Conv2dSymmetric(1, 0)},
      {{2, 5, 7, 3}, {4, 3, 3, 3}, Conv2dSymmetric(1, 1)},
      {{2, 6, 5, 9}, {7, 9, 1, 1}, Conv2dSymmetric(1, 0)},
      {{1, 8, 8, 16}, {8, 16, 3, 3}, Conv2dSymmetric(2, 1)},
      {{2, 7, 9, 4}, {3, 4, 3, 3}, {2, 0, 1, 0, 1}},  // as in the VAE
      {{1, 6, 6, 5}, {2, 5, 4, 3}, {3, 2, 1, 0, 2}},
      {{2, 4, 4, 3}, {5, 3, 1, 1}, Conv2dSymmetric(2, 0)},
  };
  for (const ConvolutionCase& c : cases) ExpectConvolution(c);
}

// A small case, so that the comparison itself is tested without a GPU.
TEST_P(ProductsParityTest, Conv2dBySampledElements) {
  ExpectSampledConvolution({{2, 5, 7, 3}, {4, 3, 3, 3}, Conv2dSymmetric(1, 1)});
  ExpectSampledConvolution({{2, 7, 9, 4}, {3, 4, 3, 3}, {2, 0, 1, 0, 1}});
}

// A U-Net's channels with small images; the full reference would take a minute.
TEST_P(ProductsParityTest, Conv2dOfAUNet) {
  if (StreamOf(*device_).emulated) GTEST_SKIP() << "for cuDNN's engines";
  const ConvolutionCase cases[] = {{{2, 8, 8, 320}, {320, 320, 3, 3}, Conv2dSymmetric(1, 1)},
                                   {{1, 8, 8, 320}, {320, 320, 3, 3}, Conv2dSymmetric(2, 1)},
                                   {{1, 8, 8, 4}, {320, 4, 3, 3}, Conv2dSymmetric(1, 1)},
                                   {{1, 4, 4, 1280}, {1280, 1280, 3, 3}, Conv2dSymmetric(1, 1)}};
  for (const ConvolutionCase& c : cases) ExpectSampledConvolution(c);
  EXPECT_THAT(device_->notes(), ::testing::IsEmpty());
}

TEST_P(ProductsParityTest, Attention) {
  const AttentionCase cases[] = {{1, 1, 1, 1, 1, false},    {2, 5, 7, 12, 3, false},
                                 {1, 64, 77, 40, 1, false}, {2, 33, 33, 16, 2, true},
                                 {1, 70, 3, 24, 8, false},  {1, 18, 9, 320, 2, false}};
  for (const AttentionCase& c : cases) ExpectAttention(c);
}

// Heads of 40, 64 and 80, which cuDNN supports on every GPU; a text encoder's attention.
TEST_P(ProductsParityTest, AttentionOfModels) {
  const AttentionCase cases[] = {{2, 33, 33, 80, 2, false},
                                 {1, 20, 77, 128, 2, false},
                                 {1, 35, 21, 160, 2, false},
                                 {2, 77, 77, 128, 2, true}};
  for (const AttentionCase& c : cases) ExpectAttention(c);
  EXPECT_THAT(device_->notes(), ::testing::IsEmpty());
}

// Compares cuDNN's attention, in more than one part, with products of the same numbers in fp32.
TEST_P(ProductsParityTest, AttentionOfManyTokens) {
  if (StreamOf(*device_).emulated) GTEST_SKIP() << "takes too long emulated";
  if (GetParam() == DType::kF32) GTEST_SKIP() << "cuDNN's attention is in bf16";
  const Shape shape = {10, 4096, 320};
  AttentionParams params;
  params.num_heads = 5;
  params.scale = AttentionScale(shape[2], params.num_heads);
  Tensors inputs;
  for (int i = 0; i < 4; ++i) inputs.push_back(OnDevice(device_, Random(shape)));
  const auto attend = [&](DType dtype) -> Tensors {
    Tensors in;
    for (const Tensor& input : inputs) in.push_back(input.To(dtype));
    const AttentionResult result = *AttentionForward(params, in[0], in[1], in[2]);
    const AttentionGrads grads =
        *AttentionInputGrad(params, in[3], in[0], in[1], in[2], result.saved);
    return {result.y, grads.dq, grads.dk, grads.dv};
  };
  const Tensors actual = attend(DType::kBf16), again = attend(DType::kBf16);
  const Tensors expected = attend(DType::kF32);
  // Results are about 2^-5: sums of thousands of terms, each rounded by 2^-9.
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    ExpectClose(Here(actual[i]).To(DType::kF32), Here(expected[i]), {1.0 / 64, 2e-3});
    ExpectSameBits(Here(again[i]), Here(actual[i]));
  }
  EXPECT_THAT(device_->notes(), ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(DTypes, ProductsParityTest, ::testing::Values(DType::kF32, DType::kBf16));

}  // namespace
}  // namespace dpipe::ops::cuda
