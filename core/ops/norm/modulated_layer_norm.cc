#include "core/ops/norm/modulated_layer_norm.h"

#include <utility>
#include <vector>

#include "core/ops/cuda/kernels/layer_norm.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/image/concat.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops {
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
  DPIPE_RETURN_IF_ERROR(RunOn(*v.device(), "split_modulation", split, split, [&] {
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
