#include <algorithm>

#include "core/ops/cuda/cudnn/cudnn_ops.h"
#include "core/ops/cuda/kernels/convolution.h"
#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/matmul.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/product/bias_grad.h"
#include "core/ops/product/conv2d_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops::cuda {
namespace {

// Maximum of window elements in memory at one time: 512 MB of bf16.
constexpr int64_t kMaxElements = int64_t{256} << 20;

// Returns the filters with their channels last, [O, R, S, I], in fp32 or bf16.
absl::StatusOr<Tensor> Filters(const Weight& w, DType dtype) {
  const WorkScope scope("layout of filters");
  const int format = Weight::kFirstBackendFormat + static_cast<int>(dtype);
  return w.Prepared(format, [dtype](const Tensor& master) -> absl::StatusOr<Tensor> {
    const Shape& s = master.shape();
    const Tensor last = Tensor::Empty(master.device(), {s[0], s[2], s[3], s[1]}, dtype);
    CountWork(0, static_cast<double>(master.size_bytes()));
    WithElements(
        [&](auto* to) {
          ChannelsToLast(StreamOf(master), s[0], s[1], s[2] * s[3], master.data<float>(), to);
        },
        last);
    return last;
  });
}

Convolution ConvolutionOf(const Conv2dParams& params, const Shape& x, const Shape& w,
                          const Shape& y) {
  return {x[0],
          x[1],
          x[2],
          x[3],
          w[0],
          w[2],
          w[3],
          y[1],
          y[2],
          params.stride,
          params.pad_top,
          params.pad_bottom,
          params.pad_left,
          params.pad_right};
}

// A convolution as products of windows and filters, a few samples at a time.
class Windows {
 public:
  Windows(const Conv2dParams& params, const Shape& x, const Shape& w, const Shape& y)
      : x_(x),
        y_(y),
        shape_{0,    x[1], x[2],          x[3],           w[2],           w[3],
               y[1], y[2], params.stride, params.pad_top, params.pad_left},
        are_pixels_(w[2] == 1 && w[3] == 1 && params.stride == 1 &&
                    y == (Shape{x[0], x[1], x[2], y[3]})) {}

  // True if each window is one pixel, so that the image itself is the matrix.
  bool are_pixels() const { return are_pixels_; }
  int64_t columns() const { return shape_.rows * shape_.columns * shape_.channels; }
  int64_t rows(int64_t samples) const { return samples * y_[1] * y_[2]; }

  // Calls f(first sample, end) for parts of the batch.
  template <typename F>
  absl::Status ForParts(const F& f) const {
    const int64_t of_sample = std::max<int64_t>(1, rows(1) * columns());
    const int64_t part = std::max<int64_t>(1, kMaxElements / of_sample);
    for (int64_t begin = 0; begin < x_[0]; begin += part) {
      DPIPE_RETURN_IF_ERROR(f(begin, std::min(x_[0], begin + part)));
    }
    return absl::OkStatus();
  }

  // Returns the windows of x, or x itself if each is one pixel.
  Tensor Gather(const Tensor& x) const {
    if (are_pixels_) return x;
    const Tensor windows = Room(x, x.dtype());
    WithElements([&](const auto* from, auto* to) { GatherWindows(StreamOf(x), Of(x), from, to); },
                 x, windows);
    return windows;
  }
  // Allocates the gradients of the windows of dx, in fp32 because they are still to be summed. Sum
  // adds them up.
  Tensor LikeGrads(const Tensor& dx) const { return are_pixels_ ? dx : Room(dx, DType::kF32); }
  void Sum(const Tensor& windows, const Tensor& dx) const {
    if (are_pixels_) return;
    WithElements([&](auto* to) { SumWindows(StreamOf(dx), Of(dx), windows.data<float>(), to); },
                 dx);
  }
  Matrix MatrixOf(const Tensor& windows) const {
    return {windows.raw_data(), windows.dtype(), columns()};
  }

 private:
  Tensor Room(const Tensor& x, DType dtype) const {
    return Tensor::Empty(x.device(), {rows(x.dim(0)), columns()}, dtype);
  }
  WindowShape Of(const Tensor& x) const {
    WindowShape shape = shape_;
    shape.batch = x.dim(0);
    return shape;
  }

  const Shape x_, y_;
  const WindowShape shape_;
  const bool are_pixels_;  // a 1 x 1 convolution: the windows are the image
};

// y += bias + addend, either of which may be undefined.
void AddTermsTo(const Tensor& y, const Tensor& bias, const Tensor& addend) {
  if (!bias.defined() && !addend.defined()) return;
  const WorkScope scope("bias and addend");
  // y is read, too.
  CountWork(0, static_cast<double>(y.size_bytes() + (addend.defined() ? addend.size_bytes() : 0)));
  const float* const of_channels = bias.defined() ? bias.data<float>() : nullptr;
  WithElements(
      [&](auto* to) {
        const decltype(to) added =
            addend.defined() ? static_cast<decltype(to)>(addend.raw_data()) : nullptr;
        const bool of_sample = added != nullptr && addend.shape() != y.shape();
        AddTerms(StreamOf(y), ChannelsLastOf(y), of_channels, of_sample ? added : nullptr,
                 of_sample ? nullptr : added, to);
      },
      y);
}

}  // namespace

absl::StatusOr<Tensor> Conv2dForward(const Conv2dParams& params, const Tensor& x, const Weight& w,
                                     const Tensor& bias, const Tensor& addend) {
  DPIPE_ASSIGN_OR_RETURN(const Tensor filters, Filters(w, x.dtype()));
  const Shape shape = Conv2dOutputShape(params, x.shape(), w.shape());
  const Windows windows(params, x.shape(), w.shape(), shape);
  Tensor y = Tensor::Empty(x.device(), shape, x.dtype());
  if (!windows.are_pixels()) {
    const absl::Status done =
        ConvolveByCudnn(ConvolutionOf(params, x.shape(), w.shape(), shape), x, filters, y);
    if (done.ok()) {
      AddTermsTo(y, bias, addend);
      return y;
    }
    if (!absl::IsUnimplemented(done)) return done;
  }
  DPIPE_RETURN_IF_ERROR(windows.ForParts([&](int64_t begin, int64_t end) {
    Product product = {windows.rows(end - begin), shape[3], windows.columns()};
    const Tensor gathered = windows.Gather(x.Slice(begin, end));
    product.a = windows.MatrixOf(gathered);
    product.b = Transposed(windows.MatrixOf(filters));
    product.d = RowsOf(y.Slice(begin, end));
    if (bias.defined()) product.bias = bias.data<float>();
    if (addend.shape() == shape) product.c = RowsOf(addend.Slice(begin, end));
    return Multiply(x.device(), product);
  }));
  if (addend.defined() && addend.shape() != shape) AddTermsTo(y, Tensor(), addend);
  return y;
}

absl::StatusOr<Tensor> Conv2dInputGrad(const Conv2dParams& params, const Tensor& dy,
                                       const Weight& w, const Shape& x_shape) {
  DPIPE_ASSIGN_OR_RETURN(const Tensor filters, Filters(w, dy.dtype()));
  const Windows windows(params, x_shape, w.shape(), dy.shape());
  Tensor dx = Tensor::Empty(dy.device(), x_shape, dy.dtype());
  if (!windows.are_pixels()) {
    const absl::Status done = ConvolveInputGradByCudnn(
        ConvolutionOf(params, x_shape, w.shape(), dy.shape()), dy, filters, dx);
    if (done.ok()) return dx;
    if (!absl::IsUnimplemented(done)) return done;
  }
  DPIPE_RETURN_IF_ERROR(windows.ForParts([&](int64_t begin, int64_t end) {
    const Tensor part = dx.Slice(begin, end), gathered = windows.LikeGrads(part);
    Product product = {windows.rows(end - begin), windows.columns(), dy.dim(3)};
    product.a = RowsOf(dy.Slice(begin, end));
    product.b = windows.MatrixOf(filters);
    product.d = windows.MatrixOf(gathered);
    DPIPE_RETURN_IF_ERROR(Multiply(dy.device(), product));
    windows.Sum(gathered, part);
    return absl::OkStatus();
  }));
  return dx;
}

namespace {

// Returns the filters' gradient, [O, R, S, I], in x's element type or a wider one.
absl::StatusOr<Tensor> FilterGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                                  const Shape& w) {
  const Windows windows(params, x.shape(), w, dy.shape());
  const Shape shape = {w[0], w[2], w[3], w[1]};
  if (!windows.are_pixels()) {
    const Tensor grad = Tensor::Empty(x.device(), shape, x.dtype());
    const absl::Status done =
        ConvolveFilterGradByCudnn(ConvolutionOf(params, x.shape(), w, dy.shape()), x, dy, grad);
    if (done.ok()) return grad;
    if (!absl::IsUnimplemented(done)) return done;
  }
  const Tensor sums = Tensor::Empty(x.device(), shape, DType::kF32);
  DPIPE_RETURN_IF_ERROR(windows.ForParts([&](int64_t begin, int64_t end) {
    Product product = {w[0], windows.columns(), windows.rows(end - begin)};
    const Tensor gathered = windows.Gather(x.Slice(begin, end));
    product.a = Transposed(RowsOf(dy.Slice(begin, end)));
    product.b = windows.MatrixOf(gathered);
    product.d = windows.MatrixOf(sums);
    if (begin > 0) product.c = product.d;
    return Multiply(x.device(), product);
  }));
  return sums;
}

// Adds [O, R, S, I] to [O, I, R, S].
void AddFilterGrad(const Tensor& grad, Tensor* dw) {
  const WorkScope scope("layout of filters' gradients");
  CountWork(0, 2.0 * static_cast<double>(dw->size_bytes()));  // read and written
  const Shape& w = dw->shape();
  WithElements(
      [&](const auto* sums) {
        AddChannelsLast(StreamOf(grad), w[0], w[1], w[2] * w[3], sums, dw->data<float>());
      },
      grad);
}

}  // namespace

absl::Status Conv2dWeightGrad(const Conv2dParams& params, const Tensor& x, const Tensor& dy,
                              Tensor* dw, Tensor* db) {
  const Shape w = dw->shape();
  DPIPE_ASSIGN_OR_RETURN(const Tensor grad, FilterGrad(params, x, dy, w));
  AddFilterGrad(grad, dw);
  if (db != nullptr) AddBiasGrad(dy, db);
  return absl::OkStatus();
}

}  // namespace dpipe::ops::cuda
