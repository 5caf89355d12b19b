#include "core/ops/elementwise/add.h"

#include "core/ops/elementwise/add_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {

absl::StatusOr<Tensor> Add(const Tensor& a, const Tensor& b) {
  CheckFloat(a);
  CheckAlike(a, b);
  Tensor y = Tensor::Empty(a.device(), a.shape(), a.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *a.device(), "add", [&] { ref::Add(a, b, &y); }, [&] { cpu::Add(a, b, &y); },
      [&] { cuda::Add(a, b, &y); }));
  return y;
}

absl::StatusOr<Tensor> AddChannels(const Tensor& x, const Tensor& v) {
  CheckFloat(x);
  CheckSameType(x, v);
  DPIPE_CHECK_EQ(v.shape(), (Shape{x.dim(0), x.dim(-1)})) << " added to " << x.shape();
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "add_channels", [&] { ref::AddChannels(x, v, &y); },
      [&] { cpu::AddChannels(x, v, &y); }, [&] { cuda::AddChannels(x, v, &y); }));
  return y;
}

absl::StatusOr<Tensor> AddChannelsVectorGrad(const Tensor& dy) {
  CheckFloat(dy);
  Tensor dv = Tensor::Empty(dy.device(), {dy.dim(0), dy.dim(-1)}, dy.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *dy.device(), "add_channels's input gradient", [&] { ref::AddChannelsVectorGrad(dy, &dv); },
      [&] { cpu::AddChannelsVectorGrad(dy, &dv); }, [&] { cuda::AddChannelsVectorGrad(dy, &dv); }));
  return dv;
}

absl::StatusOr<Tensor> Scale(float factor, const Tensor& x) {
  CheckFloat(x);
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunOn(
      *x.device(), "scale", [&] { ref::Scale(factor, x, &y); }, [&] { cpu::Scale(factor, x, &y); },
      [&] { cuda::Scale(factor, x, &y); }));
  return y;
}

absl::Status Axpy(float factor, const Tensor& x, Tensor* y) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape(), y->shape());
  if (y->dtype() != DType::kF32) CheckSameType(x, *y);
  return RunOn(
      *x.device(), "axpy", [&] { ref::Axpy(factor, x, y); }, [&] { cpu::Axpy(factor, x, y); },
      [&] { cuda::Axpy(factor, x, y); });
}

}  // namespace dpipe::ops
