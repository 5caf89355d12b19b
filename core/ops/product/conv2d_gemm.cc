#include "core/ops/product/conv2d_gemm.h"

#include <algorithm>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/ops/onednn/onednn.h"
#include "core/ops/product/fixed_order_product.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/convert.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops::cpu {
namespace {

// A convolution's sizes, and the number of samples processed at a time.
struct Sizes {
  Sizes(const Conv2dParams& p, const Shape& x, const Shape& w)
      : params(p),
        y(Conv2dOutputShape(p, x, w)),
        batch(x[0]),
        height(x[1]),
        width(x[2]),
        in(x[3]),
        out(w[0]),
        kernel_height(w[2]),
        kernel_width(w[3]),
        taps(w[2] * w[3]),
        depth(in * taps),
        pixels(y[1] * y[2]),
        // 256 rows give the product its full speed; a sample's rows are not divided.
        samples_at_a_time(
            std::max<int64_t>(1, std::min(batch, 256 / std::max<int64_t>(1, pixels)))) {}

  Conv2dParams params;
  Shape y;
  int64_t batch, height, width, in, out, kernel_height, kernel_width, taps, depth, pixels;
  int64_t samples_at_a_time;
};

// Copies the patch under one output pixel: row `out` [in * taps] from the image's pixels under each
// tap, `sources`. Two taps per cycle; the product that follows has out / 32 multiplications per
// element.
template <int kTaps, typename T>
void CopyPatch(const T* const* sources, int64_t in, float* out) {
  for (int64_t i = 0; i < in; ++i, out += kTaps) {
    for (int t = 0; t < kTaps; ++t) out[t] = Load(sources[t] + i);
  }
}

template <typename T>
void CopyPatch(const T* const* sources, int64_t taps, int64_t in, float* out) {
  if (taps == 9) return CopyPatch<9>(sources, in, out);
  for (int64_t i = 0; i < in; ++i, out += taps) {
    for (int64_t t = 0; t < taps; ++t) out[t] = Load(sources[t] + i);
  }
}

// patches [pixels, depth] of the image of one sample at `x`. Outside the image they are `zeros`
// [in].
template <typename T>
void CopyPatches(const Sizes& s, const Device& device, const T* x, const T* zeros, float* patches) {
  ParallelFor(device, s.pixels, [&](int64_t pixel) {
    absl::InlinedVector<const T*, 9> sources;
    const int64_t top = pixel / s.y[2] * s.params.stride - s.params.pad_top;
    const int64_t left = pixel % s.y[2] * s.params.stride - s.params.pad_left;
    for (int64_t r = top; r < top + s.kernel_height; ++r) {
      for (int64_t c = left; c < left + s.kernel_width; ++c) {
        const bool inside = r >= 0 && r < s.height && c >= 0 && c < s.width;
        sources.push_back(inside ? x + (r * s.width + c) * s.in : zeros);
      }
    }
    CopyPatch(sources.data(), s.taps, s.in, patches + pixel * s.depth);
  });
}

// Sums one image pixel's gradient over the patches to which it was copied. `sources` point at its
// first channel in each patch; their order is fixed.
template <typename T>
void SumPatches(const absl::InlinedVector<const float*, 9>& sources, int64_t taps, int64_t in,
                T* dx) {
  for (int64_t i = 0; i < in; ++i) {
    float sum = 0;
    for (const float* source : sources) sum += source[i * taps];
    Store(dx + i, sum);
  }
}

// The inverse of CopyPatches.
template <typename T>
void SumPatches(const Sizes& s, const Device& device, const float* patches, T* dx) {
  const int64_t stride = s.params.stride;
  ParallelFor(device, s.height * s.width, [&](int64_t pixel) {
    absl::InlinedVector<const float*, 9> sources;
    for (int64_t tap = 0; tap < s.taps; ++tap) {
      const int64_t r = pixel / s.width + s.params.pad_top - tap / s.kernel_width;
      const int64_t c = pixel % s.width + s.params.pad_left - tap % s.kernel_width;
      if (r < 0 || c < 0 || r % stride != 0 || c % stride != 0) continue;
      if (r / stride >= s.y[1] || c / stride >= s.y[2]) continue;
      sources.push_back(patches + (r / stride * s.y[2] + c / stride) * s.depth + tap);
    }
    SumPatches(sources, s.taps, s.in, dx + pixel * s.in);
  });
}

// Calls f(first sample, samples) for every piece of the batch.
template <typename F>
absl::Status ForEachPiece(const Sizes& s, const F& f) {
  for (int64_t n = 0; n < s.batch; n += s.samples_at_a_time) {
    DPIPE_RETURN_IF_ERROR(f(n, std::min(s.samples_at_a_time, s.batch - n)));
  }
  return absl::OkStatus();
}

// Allocates scratch of [rows of a piece, columns].
Tensor Scratch(const Sizes& s, const Tensor& like, int64_t columns) {
  return Tensor::Empty(like.device(), {s.samples_at_a_time * s.pixels, columns}, DType::kF32);
}

// Copies the patches of `count` samples from the n-th on.
void CopyPatches(const Sizes& s, const Tensor& x, const Tensor& zeros, int64_t n, int64_t count,
                 float* patches) {
  WithElements(
      [&](const auto* from, const auto* outside) {
        for (int64_t i = 0; i < count; ++i) {
          CopyPatches(s, *x.device(), from + (n + i) * s.height * s.width * s.in, outside,
                      patches + i * s.pixels * s.depth);
        }
      },
      x, zeros);
}

// Returns the rows of dy from the n-th sample on, in fp32: in place, or widened into `scratch`.
const float* OutputGrad(const Sizes& s, const Tensor& dy, int64_t n, int64_t count,
                        const Tensor& scratch) {
  const int64_t offset = n * s.pixels * s.out;
  if (dy.dtype() == DType::kF32) return dy.data<float>() + offset;
  Widen(*dy.device(), count * s.pixels * s.out, dy.data<Bf16>() + offset, scratch.data<float>());
  return scratch.data<float>();
}

void FillRows(int64_t rows, const Tensor& bias, float* y) {
  const int64_t width = bias.num_elements();
  for (int64_t r = 0; r < rows; ++r) {
    std::copy_n(bias.data<float>(), width, y + r * width);
  }
}

// to [rows, n] = from [rows, k] B (+ bias), where B is the master's [O, I*R*S] or its transpose.
absl::Status Multiply(const Device& device, bool transpose_b, int64_t rows, int64_t n, int64_t k,
                      const float* from, const Weight& w, const Tensor& bias, float* to) {
  const float* const b = w.master().data<float>();
  const int64_t ldb = transpose_b ? k : n;
  if (onednn::NeedsFixedOrder()) {
    FixedOrderProduct(device, transpose_b, rows, n, k, from, k, b, ldb,
                      bias.defined() ? bias.data<float>() : nullptr, to, n);
    return absl::OkStatus();
  }
  if (bias.defined()) FillRows(rows, bias, to);
  return onednn::Gemm(false, transpose_b, rows, n, k, from, k, b, ldb, bias.defined() ? 1.0f : 0.0f,
                      to, n);
}

}  // namespace

bool PrefersGemm(const Conv2dParams& params, const Shape& x, const Shape& w) {
  const Shape y = Conv2dOutputShape(params, x, w);
  const int64_t pixels = y[0] * y[1] * y[2];
  // Measured: preparing a weight and adding its gradient costs about as much per element as a
  // patch. Below 256 channels weights stay in the cache, and direct convolution is faster.
  return w[0] >= 256 && w[1] >= 256 && pixels <= 2 * w[0];
}

absl::StatusOr<Tensor> GemmConv2dForward(const Conv2dParams& params, const Tensor& x,
                                         const Weight& w, const Tensor& bias) {
  const Sizes s(params, x.shape(), w.shape());
  const Tensor y = Tensor::Empty(x.device(), s.y, x.dtype());
  const Tensor zeros = Tensor::Zeros(x.device(), {s.in}, x.dtype());
  const Tensor patches = Scratch(s, x, s.depth);
  const bool narrow = x.dtype() == DType::kBf16;
  const Tensor wide = narrow ? Scratch(s, x, s.out) : Tensor();
  DPIPE_RETURN_IF_ERROR(ForEachPiece(s, [&](int64_t n, int64_t count) -> absl::Status {
    const int64_t rows = count * s.pixels, offset = n * s.pixels * s.out;
    float* const out = narrow ? wide.data<float>() : y.data<float>() + offset;
    CopyPatches(s, x, zeros, n, count, patches.data<float>());
    DPIPE_RETURN_IF_ERROR(Multiply(*x.device(), /*transpose_b=*/true, rows, s.out, s.depth,
                                   patches.data<float>(), w, bias, out));
    if (narrow) Narrow(*x.device(), rows * s.out, out, y.data<Bf16>() + offset);
    return absl::OkStatus();
  }));
  return y;
}

absl::StatusOr<Tensor> GemmConv2dInputGrad(const Conv2dParams& params, const Tensor& dy,
                                           const Weight& w, const Shape& x_shape) {
  const Sizes s(params, x_shape, w.shape());
  const Tensor dx = Tensor::Empty(dy.device(), x_shape, dy.dtype());
  const Tensor patches = Scratch(s, dy, s.depth);
  const Tensor wide = dy.dtype() == DType::kBf16 ? Scratch(s, dy, s.out) : Tensor();
  DPIPE_RETURN_IF_ERROR(ForEachPiece(s, [&](int64_t n, int64_t count) -> absl::Status {
    DPIPE_RETURN_IF_ERROR(Multiply(*dy.device(), /*transpose_b=*/false, count * s.pixels, s.depth,
                                   s.out, OutputGrad(s, dy, n, count, wide), w, Tensor(),
                                   patches.data<float>()));
    const int64_t image = s.height * s.width * s.in;
    WithElements(
        [&](auto* to) {
          for (int64_t i = 0; i < count; ++i) {
            SumPatches(s, *dy.device(), patches.data<float>() + i * s.pixels * s.depth,
                       to + (n + i) * image);
          }
        },
        dx);
    return absl::OkStatus();
  }));
  return dx;
}

absl::Status GemmConv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                                  Tensor* dw) {
  const Sizes s(params, x.shape(), dw->shape());
  const Tensor zeros = Tensor::Zeros(x.device(), {s.in}, x.dtype());
  const Tensor patches = Scratch(s, x, s.depth);
  const Tensor wide = dy.dtype() == DType::kBf16 ? Scratch(s, dy, s.out) : Tensor();
  return ForEachPiece(s, [&](int64_t n, int64_t count) {
    CopyPatches(s, x, zeros, n, count, patches.data<float>());
    return onednn::Gemm(true, false, s.out, s.depth, count * s.pixels,
                        OutputGrad(s, dy, n, count, wide), s.out, patches.data<float>(), s.depth,
                        1.0f, dw->data<float>(), s.depth);
  });
}

}  // namespace dpipe::ops::cpu
