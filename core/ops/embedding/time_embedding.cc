#include "core/ops/embedding/time_embedding.h"

#include <cmath>

#include "core/ops/cuda/kernels/lookups.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops {
namespace {

// B * dim sines, a few thousand per step: the plain definition is fast enough on all devices.
void Fill(const TimeEmbeddingParams& params, const Tensor& timesteps, Tensor* y) {
  const int half = params.dim / 2;
  const int cosine = params.cosine_first ? 0 : half, sine = half - cosine;
  for (int64_t b = 0; b < timesteps.dim(0); ++b) {
    for (int i = 0; i < half; ++i) {
      const double exponent = -i / (half - params.frequency_shift);
      const double angle = ref::Get(timesteps, b) * std::pow(params.max_period, exponent);
      ref::Put(*y, b * params.dim + cosine + i, std::cos(angle));
      ref::Put(*y, b * params.dim + sine + i, std::sin(angle));
    }
  }
}

void FillOnGpu(const TimeEmbeddingParams& params, const Tensor& timesteps, const Tensor& y) {
  const int64_t half = params.dim / 2, cosine = params.cosine_first ? 0 : half;
  const cuda::TimeEmbeddingShape shape = {timesteps.dim(0),
                                          half,
                                          cosine,
                                          half - cosine,
                                          params.max_period,
                                          half - params.frequency_shift};
  const bool integers = timesteps.dtype() == DType::kI32;
  WithElements(
      [&](auto* to) {
        cuda::EmbedTimesteps(cuda::StreamOf(y), shape, integers ? nullptr : timesteps.data<float>(),
                             integers ? timesteps.data<int32_t>() : nullptr, to);
      },
      y);
}

}  // namespace

absl::StatusOr<Tensor> TimeEmbedding(const TimeEmbeddingParams& params, const Tensor& timesteps,
                                     DType dtype) {
  DPIPE_CHECK_EQ(timesteps.shape().rank(), 1);
  DPIPE_CHECK(timesteps.dtype() != DType::kBf16) << "bf16 cannot tell timesteps above 256 apart";
  DPIPE_CHECK(IsFloat(dtype)) << "an embedding of " << DTypeName(dtype);
  DPIPE_CHECK(params.dim > 0 && params.dim % 2 == 0) << "dim " << params.dim;
  DPIPE_CHECK_LT(params.frequency_shift, params.dim / 2);
  Tensor y = Tensor::Empty(timesteps.device(), {timesteps.dim(0), params.dim}, dtype);
  const auto fill = [&] { Fill(params, timesteps, &y); };
  DPIPE_RETURN_IF_ERROR(RunOn(*timesteps.device(), "time_embedding", fill, fill,
                              [&] { FillOnGpu(params, timesteps, y); }));
  return y;
}

}  // namespace dpipe::ops
