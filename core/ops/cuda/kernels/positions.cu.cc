#include "core/ops/cuda/kernels/positions.h"

#include <cmath>

#include "core/ops/cuda/kernels/pack.h"

namespace dpipe::ops::cuda {
namespace {

// A thread has one pack of a token's heads: it computes the pack's angles once and goes through the
// heads.
template <typename T>
struct RotateBySinusoids {
  RotaryShape shape;
  const T* x;
  T* y;

  DPIPE_KERNEL_FUNCTION double Angle(int64_t image, int64_t pair) const {
    if (image < 0) return 0;
    pair -= shape.pairs[0];
    if (pair < 0) return 0;  // the first axis' ids are 0
    if (pair < shape.pairs[1]) return AngleOf(image / shape.image_columns, pair, shape.pairs[1]);
    return AngleOf(image % shape.image_columns, pair - shape.pairs[1], shape.pairs[2]);
  }
  DPIPE_KERNEL_FUNCTION double AngleOf(int64_t id, int64_t pair, int64_t pairs) const {
    const double share = static_cast<double>(pair) / static_cast<double>(pairs);
    return static_cast<double>(id) * exp(-share * shape.log_theta);
  }
  DPIPE_KERNEL_FUNCTION void operator()() const {
    constexpr int kPairs = kPack<T> / 2;
    const int64_t head = 2 * (shape.pairs[0] + shape.pairs[1] + shape.pairs[2]);
    const RowPlace at = PackOfRow<T>(shape.batch * shape.tokens, head);
    if (at.count == 0) return;
    const int64_t image = at.row % shape.tokens - shape.text_tokens;
    float cosines[kPairs], sines[kPairs];
    DPIPE_UNROLL for (int p = 0; p < kPairs; ++p) {
      const double angle = Angle(image, at.column / 2 + p);
      cosines[p] = static_cast<float>(cos(angle));
      sines[p] = shape.sign * static_cast<float>(sin(angle));
    }
    int64_t i = at.row * shape.heads * head + at.column;
    for (int64_t h = 0; h < shape.heads; ++h, i += head) {
      const Pack<T> from = LoadPack(x + i, at.count);
      Pack<T> to;
      DPIPE_UNROLL for (int p = 0; p < kPairs; ++p) {
        const float first = from.v[2 * p], second = from.v[2 * p + 1];
        to.v[2 * p] = first * cosines[p] - second * sines[p];
        to.v[2 * p + 1] = second * cosines[p] + first * sines[p];
      }
      StorePack(y + i, at.count, to);
    }
  }
};

// A thread has one pack of a token, for all samples.
template <typename T>
struct AddSinusoids {
  PositionGrid grid;
  const T* x;
  T* y;

  DPIPE_KERNEL_FUNCTION float Value(int64_t token, int64_t channel) const {
    const int64_t half = 2 * grid.quarter, in_half = channel % half, k = in_half % grid.quarter;
    const int64_t index =
        channel < half ? grid.left + token % grid.columns : grid.top + token / grid.columns;
    const double position = static_cast<float>(index) / grid.tokens_per_position;
    const double angle = position * exp(grid.log_rate * static_cast<double>(k));
    return static_cast<float>(in_half < grid.quarter ? sin(angle) : cos(angle));
  }
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t tokens = grid.rows * grid.columns, width = 4 * grid.quarter;
    const RowPlace at = PackOfRow<T>(tokens, width);
    if (at.count == 0) return;
    Pack<T> added;
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) added.v[j] = Value(at.row, at.column + j);
    int64_t i = at.row * width + at.column;
    for (int64_t b = 0; b < grid.batch; ++b, i += tokens * width) {
      Pack<T> sum = LoadPack(x + i, at.count);
      AddTo(&sum, added);
      StorePack(y + i, at.count, sum);
    }
  }
};

}  // namespace

template <typename T>
void Rotate(const Stream& stream, const RotaryShape& shape, const T* x, T* y) {
  const int64_t head = 2 * (shape.pairs[0] + shape.pairs[1] + shape.pairs[2]);
  Launch(stream, BlocksFor(shape.batch * shape.tokens * Packs<T>(head)),
         RotateBySinusoids<T>{shape, x, y});
}

template <typename T>
void AddPositions(const Stream& stream, const PositionGrid& grid, const T* x, T* y) {
  Launch(stream, BlocksFor(grid.rows * grid.columns * Packs<T>(4 * grid.quarter)),
         AddSinusoids<T>{grid, x, y});
}

#define DPIPE_INSTANTIATE(T)                                             \
  template void Rotate(const Stream&, const RotaryShape&, const T*, T*); \
  template void AddPositions(const Stream&, const PositionGrid&, const T*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
