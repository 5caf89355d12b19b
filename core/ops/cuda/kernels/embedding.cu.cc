#include "core/ops/cuda/kernels/embedding.h"

#include <cmath>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/cuda/kernels/pack.h"

namespace dpipe::ops::cuda {
namespace {

template <typename T>
struct Embed {
  EmbeddingShape shape;
  const int32_t* ids;
  const float* table;
  const float* positions;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), token = i / shape.channels, c = i % shape.channels;
    if (token >= shape.batch * shape.tokens) return;
    const int64_t id = ids[token];
    float value = id >= 0 && id < shape.vocabulary ? table[id * shape.channels + c] : NAN;
    if (positions != nullptr) value += positions[token % shape.tokens * shape.channels + c];
    Store(y + i, value);
  }
};

// One block per token. The block of an id's first token adds the gradients of all tokens with this
// id, in order. The others do nothing.
template <typename T>
struct TableGrad {
  EmbeddingShape shape;
  const int32_t* ids;
  const T* dy;
  float* dtable;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t tokens = shape.batch * shape.tokens, first = Block();
    const int64_t id = ids[first];
    if (id < 0 || id >= shape.vocabulary) return;
    float earlier = 0;
    for (int64_t t = Thread(); t < first; t += kThreads) earlier += ids[t] == id ? 1.0f : 0.0f;
    if (BlockSum(earlier) > 0) return;
    for (int64_t c = Thread(); c < shape.channels; c += kThreads) {
      float sum = 0;
      for (int64_t t = first; t < tokens; ++t) {
        if (ids[t] == id) sum += Load(dy + t * shape.channels + c);
      }
      dtable[id * shape.channels + c] += sum;
    }
  }
};

template <typename T>
struct PositionsGrad {
  EmbeddingShape shape;
  const T* dy;
  float* dpositions;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), sample = shape.tokens * shape.channels;
    if (i >= sample) return;
    float sum = 0;
    for (int64_t b = 0; b < shape.batch; ++b) sum += Load(dy + b * sample + i);
    dpositions[i] += sum;
  }
};

template <typename T>
struct Sinusoids {
  TimeEmbeddingShape shape;
  const float* timesteps;
  const int32_t* integer_timesteps;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t thread = ThreadOfAll(), b = thread / shape.half, i = thread % shape.half;
    if (b >= shape.batch) return;
    const double timestep = timesteps != nullptr ? static_cast<double>(timesteps[b])
                                                 : static_cast<double>(integer_timesteps[b]);
    const double angle = timestep * pow(shape.max_period, static_cast<double>(-i) / shape.divisor);
    T* const row = y + b * 2 * shape.half;
    Store(row + shape.cosine + i, static_cast<float>(cos(angle)));
    Store(row + shape.sine + i, static_cast<float>(sin(angle)));
  }
};

DPIPE_KERNEL_FUNCTION int64_t Offsets(const RelativeBiasShape& shape) {
  return shape.queries + shape.keys - 1;
}
DPIPE_KERNEL_FUNCTION int BucketOf(const RelativeBiasShape& shape, int64_t offset) {
  const int64_t distance = offset > 0 ? offset : -offset;
  int bucket = 0;
  while (bucket + 1 < shape.buckets && shape.first[bucket + 1] <= distance) ++bucket;
  return offset > 0 ? bucket + shape.buckets : bucket;
}

struct RelativeBias {
  RelativeBiasShape shape;
  const float* table;
  float* bias;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), head = i / Offsets(shape);
    if (head >= shape.batch * shape.heads) return;
    const int bucket = BucketOf(shape, i % Offsets(shape) - shape.queries + 1);
    bias[i] = table[bucket * shape.heads + head % shape.heads];
  }
};

// One thread per element of the table.
struct RelativeBiasTableGrad {
  RelativeBiasShape shape;
  const float* dbias;
  float* dtable;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), bucket = i / shape.heads, head = i % shape.heads;
    if (bucket >= 2 * shape.buckets) return;
    float sum = dtable[i];
    for (int64_t b = 0; b < shape.batch; ++b) {
      const float* const from = dbias + (b * shape.heads + head) * Offsets(shape);
      for (int64_t k = 0; k < Offsets(shape); ++k) {
        if (BucketOf(shape, k - shape.queries + 1) == bucket) sum += from[k];
      }
    }
    dtable[i] = sum;
  }
};

DPIPE_KERNEL_FUNCTION int64_t SelectedToken(const SelectTokenShape& shape, const int32_t* ids,
                                            int64_t sample) {
  const int32_t* const own = ids + sample * shape.tokens;
  int64_t found = 0;
  for (int64_t t = 0; t < shape.tokens; ++t) {
    if (shape.largest) {
      if (own[t] > own[found]) found = t;
    } else if (own[t] == shape.token) {
      return t;
    }
  }
  return found;
}

template <typename T>
struct SelectToken {
  SelectTokenShape shape;
  const int32_t* ids;
  const T* x;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), b = i / shape.channels;
    if (b >= shape.batch) return;
    const int64_t row = b * shape.tokens + SelectedToken(shape, ids, b);
    y[i] = x[row * shape.channels + i % shape.channels];
  }
};

template <typename T>
struct SelectTokenGrad {
  SelectTokenShape shape;
  const int32_t* ids;
  const T* dy;
  T* dx;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), row = i / shape.channels, b = row / shape.tokens;
    if (b >= shape.batch) return;
    const bool selected = row % shape.tokens == SelectedToken(shape, ids, b);
    Store(dx + i, selected ? Load(dy + b * shape.channels + i % shape.channels) : 0.0f);
  }
};

}  // namespace

template <typename T>
void EmbedTokens(const Stream& stream, const EmbeddingShape& shape, const int32_t* ids,
                 const float* table, const float* positions, T* y) {
  Launch(stream, BlocksFor(shape.batch * shape.tokens * shape.channels),
         Embed<T>{shape, ids, table, positions, y});
}

template <typename T>
void EmbedTokensGrad(const Stream& stream, const EmbeddingShape& shape, const int32_t* ids,
                     const T* dy, float* dtable, float* dpositions) {
  if (dtable != nullptr) {
    Launch(stream, BlocksFor(shape.batch * shape.tokens * kThreads),
           TableGrad<T>{shape, ids, dy, dtable});
  }
  if (dpositions != nullptr) {
    Launch(stream, BlocksFor(shape.tokens * shape.channels),
           PositionsGrad<T>{shape, dy, dpositions});
  }
}

template <typename T>
void EmbedTimesteps(const Stream& stream, const TimeEmbeddingShape& shape, const float* timesteps,
                    const int32_t* integer_timesteps, T* y) {
  Launch(stream, BlocksFor(shape.batch * shape.half),
         Sinusoids<T>{shape, timesteps, integer_timesteps, y});
}

void LookUpRelativeBias(const Stream& stream, const RelativeBiasShape& shape, const float* table,
                        float* bias) {
  Launch(stream, BlocksFor(shape.batch * shape.heads * Offsets(shape)),
         RelativeBias{shape, table, bias});
}

void AddRelativeBiasTableGrad(const Stream& stream, const RelativeBiasShape& shape,
                              const float* dbias, float* dtable) {
  Launch(stream, BlocksFor(2 * shape.buckets * shape.heads),
         RelativeBiasTableGrad{shape, dbias, dtable});
}

template <typename T>
void SelectTokens(const Stream& stream, const SelectTokenShape& shape, const int32_t* ids,
                  const T* x, T* y) {
  Launch(stream, BlocksFor(shape.batch * shape.channels), SelectToken<T>{shape, ids, x, y});
}

template <typename T>
void SelectTokensGrad(const Stream& stream, const SelectTokenShape& shape, const int32_t* ids,
                      const T* dy, T* dx) {
  Launch(stream, BlocksFor(shape.batch * shape.tokens * shape.channels),
         SelectTokenGrad<T>{shape, ids, dy, dx});
}

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

#define DPIPE_INSTANTIATE(T)                                                                       \
  template void EmbedTokens(const Stream&, const EmbeddingShape&, const int32_t*, const float*,    \
                            const float*, T*);                                                     \
  template void EmbedTokensGrad(const Stream&, const EmbeddingShape&, const int32_t*, const T*,    \
                                float*, float*);                                                   \
  template void EmbedTimesteps(const Stream&, const TimeEmbeddingShape&, const float*,             \
                               const int32_t*, T*);                                                \
  template void SelectTokens(const Stream&, const SelectTokenShape&, const int32_t*, const T*,     \
                             T*);                                                                  \
  template void SelectTokensGrad(const Stream&, const SelectTokenShape&, const int32_t*, const T*, \
                                 T*);                                                              \
  template void Rotate(const Stream&, const RotaryShape&, const T*, T*);                           \
  template void AddPositions(const Stream&, const PositionGrid&, const T*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
