#include "core/ops/embedding/select_token.h"

#include <algorithm>
#include <cstring>

#include "core/ops/cuda/kernels/lookups.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
namespace {

void CheckIds(const Tensor& ids, int64_t batch) {
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

cuda::SelectTokenShape ShapeOf(std::optional<int32_t> token, const Tensor& ids, int64_t channels) {
  return {ids.dim(0), ids.dim(1), channels, !token.has_value(), token.value_or(0)};
}

}  // namespace

absl::StatusOr<Tensor> SelectTokenForward(std::optional<int32_t> token, const Tensor& ids,
                                          const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 3) << x.shape();
  CheckIds(ids, x.dim(0));
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
  DPIPE_RETURN_IF_ERROR(RunOn(*x.device(), "select_token", copy, copy, [&] {
    WithElements(
        [&](auto* to, const auto* from) {
          cuda::SelectTokens(cuda::StreamOf(x), ShapeOf(token, ids, x.dim(2)), ids.data<int32_t>(),
                             from, to);
        },
        y, x);
  }));
  return y;
}

absl::StatusOr<Tensor> SelectTokenInputGrad(std::optional<int32_t> token, const Tensor& ids,
                                            const Tensor& dy) {
  CheckFloat(dy);
  DPIPE_CHECK_EQ(dy.shape().rank(), 2) << dy.shape();
  CheckIds(ids, dy.dim(0));
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
  DPIPE_RETURN_IF_ERROR(RunOn(*dy.device(), "select_token's input gradient", copy, copy, [&] {
    WithElements(
        [&](auto* to, const auto* from) {
          cuda::SelectTokensGrad(cuda::StreamOf(dy), ShapeOf(token, ids, dy.dim(1)),
                                 ids.data<int32_t>(), from, to);
        },
        dx, dy);
  }));
  return dx;
}

}  // namespace dpipe::ops
