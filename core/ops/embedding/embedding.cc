#include "core/ops/embedding/embedding.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/ops/cuda/kernels/embedding.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/embedding/embedding_kernels.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops {
namespace {

void CheckIds(const Tensor& ids) {
  DPIPE_CHECK(ids.dtype() == DType::kI32) << "ids of " << DTypeName(ids.dtype());
  DPIPE_CHECK_EQ(ids.shape().rank(), 2);
}

absl::Status CheckVocabulary(const Tensor& ids, int64_t rows) {
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    const int32_t id = ids.data<int32_t>()[i];
    if (id < 0 || id >= rows) {
      return absl::InvalidArgumentError(absl::StrCat("token ", i % ids.dim(1), " of sample ",
                                                     i / ids.dim(1), " has id ", id,
                                                     "; the table has ", rows, " rows"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Tensor> EmbeddingForward(const Tensor& ids, const Tensor& table,
                                        const Tensor& positions, DType dtype) {
  CheckIds(ids);
  CheckFp32(table, {table.dim(0), table.dim(1)});
  DPIPE_CHECK(IsFloat(dtype)) << "an embedding of " << DTypeName(dtype);
  const int64_t tokens = ids.dim(1), channels = table.dim(1);
  if (positions.defined()) {
    CheckFp32(positions, {positions.dim(0), channels});
    DPIPE_CHECK_LE(tokens, positions.dim(0)) << "more tokens than positions";
  }
  Tensor y = Tensor::Empty(table.device(), {ids.dim(0), tokens, channels}, dtype);
  if (table.device()->kind() != DeviceKind::kCuda) {
    DPIPE_RETURN_IF_ERROR(CheckVocabulary(ids, table.dim(0)));
  }
  DPIPE_RETURN_IF_ERROR(RunKernel(*table.device(), "embedding",
                                  &EmbeddingKernels::embedding_forward, ids, table, positions, &y));
  return y;
}

absl::Status EmbeddingWeightGrad(const Tensor& ids, const Tensor& dy, Tensor* dtable,
                                 Tensor* dpositions) {
  CheckIds(ids);
  CheckFloat(dy);
  const int64_t channels = dy.dim(2);
  DPIPE_CHECK_EQ(dy.shape(), (Shape{ids.dim(0), ids.dim(1), channels}));
  if (dtable != nullptr) CheckFp32(*dtable, {dtable->dim(0), channels});
  if (dpositions != nullptr) CheckFp32(*dpositions, {dpositions->dim(0), channels});
  if (dtable != nullptr && dy.device()->kind() != DeviceKind::kCuda) {
    DPIPE_RETURN_IF_ERROR(CheckVocabulary(ids, dtable->dim(0)));
  }
  return RunKernel(*dy.device(), "embedding", &EmbeddingKernels::embedding_weight_grad, ids, dy,
                   dtable, dpositions);
}

namespace {

void CheckIdsOfStates(const Tensor& ids, int64_t batch) {
  DPIPE_CHECK(ids.dtype() == DType::kI32) << "ids of " << DTypeName(ids.dtype());
  DPIPE_CHECK(ids.shape().rank() == 2 && ids.dim(1) >= 1) << "ids " << ids.shape();
  DPIPE_CHECK_EQ(ids.dim(0), batch);
}

int64_t PositionOf(std::optional<int32_t> token, const Tensor& ids, int64_t sample) {
  const int32_t* const begin = ids.data<int32_t>() + sample * ids.dim(1);
  const int32_t* const end = begin + ids.dim(1);
  const int32_t* const found =
      token.has_value() ? std::find(begin, end, *token) : std::max_element(begin, end);
  return found == end ? 0 : found - begin;
}

cuda::SelectTokenShape SelectionOf(std::optional<int32_t> token, const Tensor& ids,
                                   int64_t channels) {
  return {ids.dim(0), ids.dim(1), channels, !token.has_value(), token.value_or(0)};
}

}  // namespace

absl::StatusOr<Tensor> SelectTokenForward(std::optional<int32_t> token, const Tensor& ids,
                                          const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 3) << x.shape();
  CheckIdsOfStates(ids, x.dim(0));
  DPIPE_CHECK_EQ(ids.dim(1), x.dim(1)) << "tokens of ids and states";
  Tensor y = Tensor::Empty(x.device(), {x.dim(0), x.dim(2)}, x.dtype());
  // A copy of one row per sample: one loop serves every host device.
  const auto copy = [&] {
    const int64_t row = x.dim(2) * SizeOf(x.dtype());
    for (int64_t b = 0; b < x.dim(0); ++b) {
      const int64_t from = b * x.dim(1) + PositionOf(token, ids, b);
      std::memcpy(static_cast<char*>(y.raw_data()) + b * row,
                  static_cast<const char*>(x.raw_data()) + from * row, row);
    }
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*x.device(), "select_token", copy, [&] {
    WithElements(
        [&](auto* to, const auto* from) {
          cuda::SelectTokens(cuda::StreamOf(x), SelectionOf(token, ids, x.dim(2)),
                             ids.data<int32_t>(), from, to);
        },
        y, x);
  }));
  return y;
}

absl::StatusOr<Tensor> SelectTokenInputGrad(std::optional<int32_t> token, const Tensor& ids,
                                            const Tensor& dy) {
  CheckFloat(dy);
  DPIPE_CHECK_EQ(dy.shape().rank(), 2) << dy.shape();
  CheckIdsOfStates(ids, dy.dim(0));
  Tensor dx = Tensor::Empty(dy.device(), {dy.dim(0), ids.dim(1), dy.dim(1)}, dy.dtype());
  const auto copy = [&] {
    const int64_t row = dy.dim(1) * SizeOf(dy.dtype());
    std::memset(dx.raw_data(), 0, dx.size_bytes());
    for (int64_t b = 0; b < dy.dim(0); ++b) {
      const int64_t to = b * ids.dim(1) + PositionOf(token, ids, b);
      std::memcpy(static_cast<char*>(dx.raw_data()) + to * row,
                  static_cast<const char*>(dy.raw_data()) + b * row, row);
    }
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*dy.device(), "select_token's input gradient", copy, [&] {
    WithElements(
        [&](auto* to, const auto* from) {
          cuda::SelectTokensGrad(cuda::StreamOf(dy), SelectionOf(token, ids, dy.dim(1)),
                                 ids.data<int32_t>(), from, to);
        },
        dx, dy);
  }));
  return dx;
}

namespace {

// B * dim sines, a few thousand per step: the plain definition is fast enough on all devices.
void FillSinusoids(const TimeEmbeddingParams& params, const Tensor& timesteps, Tensor* y) {
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

void FillSinusoidsOnGpu(const TimeEmbeddingParams& params, const Tensor& timesteps,
                        const Tensor& y) {
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
  const auto fill = [&] { FillSinusoids(params, timesteps, &y); };
  DPIPE_RETURN_IF_ERROR(RunOn(*timesteps.device(), "time_embedding", fill,
                              [&] { FillSinusoidsOnGpu(params, timesteps, y); }));
  return y;
}

}  // namespace dpipe::ops
