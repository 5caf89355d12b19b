#include <cmath>

#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/cuda/kernels/norm.h"
#include "core/ops/cuda/kernels/norm_rows.h"

namespace dpipe::ops::cuda {
namespace {

template <typename T>
struct NormTensors {
  int64_t rows, channels, rows_per_vector;
  float eps;
  const T* x;
  const float* scale;
  const float* bias;
  float* stats;
  T* y;

  DPIPE_KERNEL_FUNCTION float Rstd(float squares) const {
    return 1.0f / sqrtf(squares / static_cast<float>(channels) + eps);
  }
  // Normalises the pack at channel c of a row and writes it.
  DPIPE_KERNEL_FUNCTION void Write(int64_t row, int64_t c, int count, float mean, float rstd,
                                   Pack<T> v) const {
    const uint32_t vector = static_cast<uint32_t>(row) / static_cast<uint32_t>(rows_per_vector);
    const int64_t from = vector * channels + c;
    Pack<T> scales, biases;
    LoadSpan(scale + from, count, scales.v);
    LoadSpan(bias + from, count, biases.v);
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      v.v[j] = fmaf((v.v[j] - mean) * rstd, scales.v[j], biases.v[j]);
    }
    StorePack(y + row * channels + c, count, v);
  }
  DPIPE_KERNEL_FUNCTION void WriteStats(int64_t row, float mean, float rstd) const {
    stats[2 * row] = mean;
    stats[2 * row + 1] = rstd;
  }
};

// Returns `squares` plus the squared differences from the mean of a pack's first `count` elements.
template <typename T>
DPIPE_KERNEL_FUNCTION float AddSquares(const Pack<T>& v, int count, float mean, float squares) {
  DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
    const float d = v.v[j] - mean;
    if (j < count) squares = fmaf(d, d, squares);
  }
  return squares;
}

// Returns `sum` plus a pack's elements.
template <typename T>
DPIPE_KERNEL_FUNCTION float AddElements(const Pack<T>& v, float sum) {
  DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) sum += v.v[j];
  return sum;
}

// Reads each row once.
template <typename T, uint32_t kLanes>
struct NormaliseRows {
  NormTensors<T> of;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const RowLanes<T, kLanes> lanes = {of.channels};
    const int64_t row = ThreadOfAll() / kLanes;
    const bool exists = row < of.rows;  // false: the lanes still take part in shuffles
    Words words[kPacks];
    lanes.LoadRow(of.x + row * of.channels, exists, words);
    Pack<T> v[kPacks];
    float sum = 0, squares = 0;
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      Unpack(words[p], &v[p]);
      sum = AddElements(v[p], sum);
    }
    const float mean = lanes.Sum(sum) / static_cast<float>(of.channels);
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      if (lanes.Has(p)) squares = AddSquares(v[p], kPack<T>, mean, squares);
    }
    const float rstd = of.Rstd(lanes.Sum(squares));
    if (!exists) return;
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      if (lanes.Has(p)) of.Write(row, lanes.Column(p), kPack<T>, mean, rstd, v[p]);
    }
    if (Thread() % kLanes == 0) of.WriteStats(row, mean, rstd);
  }
};

// Reads each row three times; the second and third time from the cache.
template <typename T>
struct NormaliseLongRows {
  NormTensors<T> of;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t row = ThreadOfAll() / kWarp;
    if (row >= of.rows) return;
    const T* const from = of.x + row * of.channels;
    float sum = 0, squares = 0;
    ForPacks<T>(of.channels,
                [&](int64_t c, int count) { sum = AddElements(LoadPack(from + c, count), sum); });
    const float mean = WarpSum(sum) / static_cast<float>(of.channels);
    ForPacks<T>(of.channels, [&](int64_t c, int count) {
      squares = AddSquares(LoadPack(from + c, count), count, mean, squares);
    });
    const float rstd = of.Rstd(WarpSum(squares));
    ForPacks<T>(of.channels, [&](int64_t c, int count) {
      of.Write(row, c, count, mean, rstd, LoadPack(from + c, count));
    });
    if (Thread() % kWarp == 0) of.WriteStats(row, mean, rstd);
  }
};

template <typename T>
struct ModulationParts {
  int64_t batch, channels;
  bool shift_first;
  const T* v;
  float* scale;
  float* shift;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t i = ThreadOfAll(), sample = i / (2 * channels), c = i % (2 * channels);
    if (sample >= batch) return;
    const bool is_shift = (c < channels) == shift_first;
    float* const to = is_shift ? shift : scale;
    to[sample * channels + c % channels] = Load(v + i) + (is_shift ? 0.0f : 1.0f);
  }
};

template <uint32_t kLanes, typename T>
bool LaunchNorm(const Stream& stream, const NormTensors<T>& of) {
  if (!RowLanes<T, kLanes>::Hold(of.channels)) return false;
  Launch(stream, BlocksFor(of.rows * kLanes), NormaliseRows<T, kLanes>{of});
  return true;
}

}  // namespace

template <typename T>
void LayerNormValues(const Stream& stream, int64_t rows, int64_t channels, int64_t rows_per_vector,
                     float eps, const T* x, const float* scale, const float* bias, float* stats,
                     T* y) {
  const NormTensors<T> of = {rows, channels, rows_per_vector, eps, x, scale, bias, stats, y};
  // In bf16: up to 320, 640 and 1280 channels.
  if (LaunchNorm<8>(stream, of) || LaunchNorm<16>(stream, of) || LaunchNorm<32>(stream, of)) return;
  Launch(stream, BlocksFor(rows * kWarp), NormaliseLongRows<T>{of});
}

template <typename T>
void SplitModulation(const Stream& stream, int64_t batch, int64_t channels, bool shift_first,
                     const T* v, float* scale, float* shift) {
  Launch(stream, BlocksFor(batch * 2 * channels),
         ModulationParts<T>{batch, channels, shift_first, v, scale, shift});
}

#define DPIPE_INSTANTIATE(T)                                                               \
  template void LayerNormValues(const Stream&, int64_t, int64_t, int64_t, float, const T*, \
                                const float*, const float*, float*, T*);                   \
  template void SplitModulation(const Stream&, int64_t, int64_t, bool, const T*, float*, float*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
