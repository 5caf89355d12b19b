#include "core/ops/norm/layer_norm.h"

#include <utility>
#include <vector>

#include "core/ops/cuda/kernels/norm.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/image/rearrange.h"
#include "core/ops/norm/norm_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops {
namespace {

void CheckVector(const Tensor& x, const Tensor& v) {
  if (v.shape().rank() == 2) {
    CheckFp32(v, {x.dim(0), x.dim(-1)});
  } else {
    CheckFp32(v, {x.dim(-1)});
  }
}

}  // namespace

absl::StatusOr<LayerNormResult> LayerNormForward(const LayerNormParams& params, const Tensor& x,
                                                 const Tensor& scale, const Tensor& bias) {
  CheckFloat(x);
  const int64_t channels = x.dim(-1);
  CheckVector(x, scale);
  CheckFp32(bias, scale.shape());
  LayerNormResult result;
  result.y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  result.stats = Tensor::Empty(x.device(), {x.num_elements() / channels, 2}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "layer_norm", &LayerNormKernels::layer_norm_forward,
                                  params, x, scale, bias, &result));
  return result;
}

absl::StatusOr<LayerNormGrads> LayerNormInputGrad(const Tensor& x, const Tensor& dy,
                                                  const Tensor& stats, const Tensor& scale,
                                                  const Tensor& addend) {
  CheckFloat(x);
  CheckSameShapeAndType(x, dy);
  const int64_t channels = x.dim(-1);
  CheckVector(x, scale);
  CheckFp32(stats, {x.num_elements() / channels, 2});
  CheckAddend(addend, x.shape(), x.dtype());
  LayerNormGrads grads;
  grads.dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  grads.sums = Tensor::Empty(x.device(), {x.dim(0), 2, channels}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "layer_norm's input gradient",
                                  &LayerNormKernels::layer_norm_input_grad, x, dy, stats, scale,
                                  addend, &grads));
  return grads;
}

absl::Status LayerNormWeightGrad(const Tensor& sums, Tensor* dscale, Tensor* dbias) {
  const int64_t batch = sums.dim(0), channels = sums.dim(2);
  CheckFp32(sums, {batch, 2, channels});
  CheckFp32(*dscale, {channels});
  CheckFp32(*dbias, {channels});
  // A few kilobytes: one loop serves every host device.
  const auto add = [&] {
    for (int64_t b = 0; b < batch; ++b) {
      const float* from = sums.data<float>() + b * 2 * channels;
      for (int64_t c = 0; c < channels; ++c) dbias->data<float>()[c] += from[c];
      for (int64_t c = 0; c < channels; ++c) dscale->data<float>()[c] += from[channels + c];
    }
  };
  return RunOn(*sums.device(), "layer_norm's weight gradient", add, [&] {
    cuda::AddNormWeightGrads(cuda::StreamOf(sums), batch, channels, channels, 1, sums.data<float>(),
                             dscale->data<float>(), dbias->data<float>());
  });
}

absl::StatusOr<RmsNormResult> RmsNormForward(const RmsNormParams& params, const Tensor& x,
                                             const Tensor& scale) {
  CheckFloat(x);
  const int64_t channels = x.dim(-1);
  CheckFp32(scale, {channels});
  RmsNormResult result;
  result.y = Tensor::Empty(x.device(), x.shape(), x.dtype());
  result.rstd = Tensor::Empty(x.device(), {x.num_elements() / channels}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "rms_norm", &LayerNormKernels::rms_norm_forward,
                                  params, x, scale, &result));
  return result;
}

absl::StatusOr<RmsNormGrads> RmsNormInputGrad(const Tensor& x, const Tensor& dy, const Tensor& rstd,
                                              const Tensor& scale, const Tensor& addend) {
  CheckFloat(x);
  CheckSameShapeAndType(x, dy);
  const int64_t channels = x.dim(-1);
  CheckFp32(scale, {channels});
  CheckFp32(rstd, {x.num_elements() / channels});
  CheckAddend(addend, x.shape(), x.dtype());
  RmsNormGrads grads;
  grads.dx = Tensor::Empty(x.device(), x.shape(), x.dtype());
  grads.sums = Tensor::Empty(x.device(), {x.dim(0), channels}, DType::kF32);
  DPIPE_RETURN_IF_ERROR(RunKernel(*x.device(), "rms_norm's input gradient",
                                  &LayerNormKernels::rms_norm_input_grad, x, dy, rstd, scale,
                                  addend, &grads));
  return grads;
}

absl::Status RmsNormWeightGrad(const Tensor& sums, Tensor* dscale) {
  const int64_t batch = sums.dim(0), channels = sums.dim(1);
  CheckFp32(sums, {batch, channels});
  CheckFp32(*dscale, {channels});
  // A few kilobytes: one loop serves every host device.
  const auto add = [&] {
    for (int64_t b = 0; b < batch; ++b) {
      const float* from = sums.data<float>() + b * channels;
      for (int64_t c = 0; c < channels; ++c) dscale->data<float>()[c] += from[c];
    }
  };
  return RunOn(*sums.device(), "rms_norm's weight gradient", add, [&] {
    cuda::AddRmsNormWeightGrad(cuda::StreamOf(sums), batch, channels, sums.data<float>(),
                               dscale->data<float>());
  });
}

namespace {

// The parts of v in fp32, each [B, C].
struct Modulation {
  Tensor scale;  // plus 1
  Tensor shift;
};

// A few kilobytes: one loop serves every host device.
void Split(bool shift_first, const Tensor& v, const Modulation& m) {
  const int64_t channels = m.scale.dim(1);
  for (int64_t i = 0; i < v.num_elements(); ++i) {
    const int64_t sample = i / (2 * channels), c = i % (2 * channels);
    const bool is_shift = (c < channels) == shift_first;
    float* const to = (is_shift ? m.shift : m.scale).data<float>();
    to[sample * channels + c % channels] =
        static_cast<float>(ref::Get(v, i)) + (is_shift ? 0.0f : 1.0f);
  }
}

absl::StatusOr<Modulation> SplitModulation(bool shift_first, const Tensor& v) {
  const int64_t batch = v.dim(0), channels = v.dim(1) / 2;
  const Modulation m = {Tensor::Empty(v.device(), {batch, channels}, DType::kF32),
                        Tensor::Empty(v.device(), {batch, channels}, DType::kF32)};
  const auto split = [&] { Split(shift_first, v, m); };
  DPIPE_RETURN_IF_ERROR(RunOn(*v.device(), "split_modulation", split, [&] {
    WithElements(
        [&](const auto* from) {
          cuda::SplitModulation(cuda::StreamOf(v), batch, channels, shift_first, from,
                                m.scale.data<float>(), m.shift.data<float>());
        },
        v);
  }));
  return m;
}

}  // namespace

absl::StatusOr<ModulatedLayerNormResult> ModulatedLayerNormForward(
    const ModulatedLayerNormParams& params, const Tensor& x, const Tensor& v) {
  CheckFloat(x);
  CheckSameType(x, v);
  DPIPE_CHECK_EQ(v.shape(), (Shape{x.dim(0), 2 * x.dim(-1)})) << " modulates " << x.shape();
  DPIPE_ASSIGN_OR_RETURN(const Modulation m, SplitModulation(params.shift_first, v));
  DPIPE_ASSIGN_OR_RETURN(LayerNormResult norm, LayerNormForward({params.eps}, x, m.scale, m.shift));
  return ModulatedLayerNormResult{std::move(norm.y), std::move(norm.stats), m.scale};
}

absl::StatusOr<ModulatedLayerNormGrads> ModulatedLayerNormInputGrad(
    const ModulatedLayerNormParams& params, const Tensor& x, const Tensor& dy, const Tensor& stats,
    const Tensor& scale, const Tensor& addend) {
  const int64_t batch = x.dim(0), channels = x.dim(-1);
  CheckFp32(scale, {batch, channels});
  DPIPE_ASSIGN_OR_RETURN(LayerNormGrads norm, LayerNormInputGrad(x, dy, stats, scale, addend));
  Tensor dv = norm.sums.Reshape({batch, 2 * channels});  // [shift | scale]
  if (!params.shift_first) {
    DPIPE_ASSIGN_OR_RETURN(std::vector<Tensor> parts, SplitChannels(dv, {channels, channels}));
    DPIPE_ASSIGN_OR_RETURN(dv, ConcatChannels({parts[1], parts[0]}));
  }
  if (dv.dtype() != x.dtype()) dv = dv.To(x.dtype());
  return ModulatedLayerNormGrads{std::move(norm.dx), std::move(dv)};
}

}  // namespace dpipe::ops
