#include "core/ops/norm/group_norm.h"

#include "core/ops/cuda/kernels/norm.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/norm/norm_kernels.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

void CheckArguments(const GroupNormParams& params, const Tensor& x, const Tensor& scale,
                    const Tensor& bias) {
  CheckFloat(x);
  const int64_t channels = x.dim(-1);
  DPIPE_CHECK(params.groups > 0 && channels % params.groups == 0)
      << channels << " channels in " << params.groups << " groups";
  CheckFp32(scale, {channels});
  CheckFp32(bias, {channels});
}

}  // namespace

absl::StatusOr<GroupNormResult> GroupNormForward(const GroupNormParams& params, const Tensor& x,
                                                 const Tensor& scale, const Tensor& bias) {
  CheckArguments(params, x, scale, bias);
  GroupNormResult result;
  result.y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  result.stats = Tensor::Empty(x.device(), {x.dim(0), params.groups, 2}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "group_norm", &GroupNormKernels::group_norm_forward,
                                  params, x, scale, bias, &result));
  return result;
}

absl::StatusOr<GroupNormGrads> GroupNormInputGrad(const GroupNormParams& params, const Tensor& x,
                                                  const Tensor& dy, const Tensor& stats,
                                                  const Tensor& scale, const Tensor& bias,
                                                  const Tensor& addend) {
  CheckArguments(params, x, scale, bias);
  CheckSameShapeAndType(x, dy);
  CheckAddend(addend, x.shape(), x.dtype());
  CheckFp32(stats, {x.dim(0), params.groups, 2});
  GroupNormGrads grads;
  grads.dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  grads.sums = Tensor::Empty(x.device(), {x.dim(0), x.dim(-1), 2}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "group_norm's input gradient",
                                  &GroupNormKernels::group_norm_input_grad, params, x, dy, stats,
                                  scale, bias, addend, &grads));
  return grads;
}

absl::Status GroupNormWeightGrad(const Tensor& sums, Tensor* dscale, Tensor* dbias) {
  const int64_t batch = sums.dim(0), channels = sums.dim(1);
  CheckFp32(sums, {batch, channels, 2});
  CheckFp32(*dscale, {channels});
  CheckFp32(*dbias, {channels});
  // A few kilobytes: one loop serves every host device.
  const auto add = [&] {
    const float* from = sums.data<float>();
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t c = 0; c < channels; ++c, from += 2) {
        dbias->data<float>()[c] += from[0];
        dscale->data<float>()[c] += from[1];
      }
    }
  };
  return RunOn(*sums.device(), "group_norm's weight gradient", add, [&] {
    cuda::AddNormWeightGrads(cuda::StreamOf(sums), batch, channels, 1, 2, sums.data<float>(),
                             dscale->data<float>(), dbias->data<float>());
  });
}

namespace {

void CheckModulation(const Tensor& x, const Tensor& v) {
  CheckFloat(x);
  CheckSameType(x, v);
  DPIPE_CHECK_EQ(v.shape(), (Shape{x.dim(0), 2 * x.dim(-1)}));
}

}  // namespace

absl::StatusOr<Tensor> ModulateForward(bool silu, const Tensor& x, const Tensor& v) {
  CheckModulation(x, v);
  Tensor y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(
      RunKernel(*x.device(), "modulate", &GroupNormKernels::modulate_forward, silu, x, v, &y));
  return y;
}

absl::StatusOr<ModulateGrads> ModulateInputGrad(bool silu, const Tensor& x, const Tensor& v,
                                                const Tensor& dy) {
  CheckModulation(x, v);
  CheckSameShapeAndType(x, dy);
  ModulateGrads grads;
  grads.dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  grads.dv = Tensor::Empty(x.device(), v.shape(), x.dtype());
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "modulate's input gradient",
                                  &GroupNormKernels::modulate_input_grad, silu, x, v, dy, &grads.dx,
                                  &grads.dv));
  return grads;
}

}  // namespace dpipe::ops
