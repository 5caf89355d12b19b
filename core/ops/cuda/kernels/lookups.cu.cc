#include "core/ops/cuda/kernels/lookups.h"

#include <cmath>

#include "core/ops/cuda/kernels/pack.h"
#include "core/ops/cuda/kernels/reduce.h"

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

constexpr double kMinLogVariance = -30, kMaxLogVariance = 20;

DPIPE_KERNEL_FUNCTION double StandardDeviation(double log_variance) {
  double clamped = log_variance < kMinLogVariance ? kMinLogVariance : log_variance;
  clamped = clamped > kMaxLogVariance ? kMaxLogVariance : clamped;
  return exp(0.5 * clamped);
}

template <typename T>
struct Sample {
  int64_t rows, channels;
  float factor;
  const T* moments;
  const float* noise;
  float* z;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), row = i / channels;
    if (row >= rows) return;
    const T* const mean = moments + row * channels + i;
    const double deviation = StandardDeviation(Load(mean + channels));
    z[i] = static_cast<float>(factor * (Load(mean) + deviation * noise[i]));
  }
};

template <typename T>
struct SampleGrad {
  int64_t rows, channels;
  float factor;
  const T* moments;
  const float* noise;
  const float* dz;
  T* d_moments;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), row = i / channels;
    if (row >= rows) return;
    const int64_t mean = row * channels + i;
    const double log_variance = Load(moments + mean + channels);
    const double d = double{factor} * dz[i];
    const bool inside = kMinLogVariance <= log_variance && log_variance <= kMaxLogVariance;
    Store(d_moments + mean, static_cast<float>(d));
    Store(d_moments + mean + channels,
          inside ? static_cast<float>(0.5 * d * StandardDeviation(log_variance) * noise[i]) : 0.0f);
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

template <typename T>
void SampleGaussian(const Stream& stream, int64_t rows, int64_t channels, float factor,
                    const T* moments, const float* noise, float* z) {
  Launch(stream, BlocksFor(rows * channels), Sample<T>{rows, channels, factor, moments, noise, z});
}

template <typename T>
void SampleGaussianGrad(const Stream& stream, int64_t rows, int64_t channels, float factor,
                        const T* moments, const float* noise, const float* dz, T* d_moments) {
  Launch(stream, BlocksFor(rows * channels),
         SampleGrad<T>{rows, channels, factor, moments, noise, dz, d_moments});
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
  template void SampleGaussian(const Stream&, int64_t, int64_t, float, const T*, const float*,     \
                               float*);                                                            \
  template void SampleGaussianGrad(const Stream&, int64_t, int64_t, float, const T*, const float*, \
                                   const float*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
