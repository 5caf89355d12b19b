#include <cmath>

#include "core/ops/cuda/kernels/channel_sums.h"
#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/cuda/kernels/norm.h"
#include "core/ops/cuda/kernels/norm_rows.h"

namespace dpipe::ops::cuda {
namespace {

template <typename T>
struct RmsNormTensors {
  int64_t rows, channels;
  float eps;
  const T* x;
  const float* scale;
  float* rstd;
  T* y;

  DPIPE_KERNEL_FUNCTION float Rstd(float squares) const {
    return 1.0f / sqrtf(squares / static_cast<float>(channels) + eps);
  }
  // Normalises the pack at channel c of a row and writes it.
  DPIPE_KERNEL_FUNCTION void Write(int64_t row, int64_t c, int count, float of_row,
                                   Pack<T> v) const {
    Pack<T> scales;
    LoadSpan(scale + c, count, scales.v);
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) v.v[j] = v.v[j] * of_row * scales.v[j];
    StorePack(y + row * channels + c, count, v);
  }
};

// Returns `squares` plus the squares of a pack's elements. Missing elements are 0.
template <typename T>
DPIPE_KERNEL_FUNCTION float AddSquares(const Pack<T>& v, float squares) {
  DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) squares = fmaf(v.v[j], v.v[j], squares);
  return squares;
}

// Reads each row once.
template <typename T, uint32_t kLanes>
struct RmsNormaliseRows {
  RmsNormTensors<T> of;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const RowLanes<T, kLanes> lanes = {of.channels};
    const int64_t row = ThreadOfAll() / kLanes;
    const bool exists = row < of.rows;  // false: the lanes still take part in shuffles
    Words words[kPacks];
    lanes.LoadRow(of.x + row * of.channels, exists, words);
    Pack<T> v[kPacks];
    float squares = 0;
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      Unpack(words[p], &v[p]);
      squares = AddSquares(v[p], squares);
    }
    const float rstd = of.Rstd(lanes.Sum(squares));
    if (!exists) return;
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      if (lanes.Has(p)) of.Write(row, lanes.Column(p), kPack<T>, rstd, v[p]);
    }
    if (Thread() % kLanes == 0) of.rstd[row] = rstd;
  }
};

// Reads each row twice; the second time from the cache.
template <typename T>
struct RmsNormaliseLongRows {
  RmsNormTensors<T> of;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t row = ThreadOfAll() / kWarp;
    if (row >= of.rows) return;
    const T* const from = of.x + row * of.channels;
    float squares = 0;
    ForPacks<T>(of.channels, [&](int64_t c, int count) {
      squares = AddSquares(LoadPack(from + c, count), squares);
    });
    const float rstd = of.Rstd(WarpSum(squares));
    ForPacks<T>(of.channels, [&](int64_t c, int count) {
      of.Write(row, c, count, rstd, LoadPack(from + c, count));
    });
    if (Thread() % kWarp == 0) of.rstd[row] = rstd;
  }
};

template <uint32_t kLanes, typename T>
bool LaunchNorm(const Stream& stream, const RmsNormTensors<T>& of) {
  if (!RowLanes<T, kLanes>::Hold(of.channels)) return false;
  Launch(stream, BlocksFor(of.rows * kLanes), RmsNormaliseRows<T, kLanes>{of});
  return true;
}

// With h = x rstd:  dx = rstd (dy scale - h mean of (dy scale h)).
template <typename T>
struct RmsGradTensors {
  ChannelsLast shape;
  const T* x;
  const T* dy;
  const float* rstd;
  const float* scale;
  const T* addend;
  T* dx;

  DPIPE_KERNEL_FUNCTION int64_t Rows() const { return shape.batch * shape.positions; }
  // Returns `sum` plus a pack's terms of the mean. Missing elements of a pack have dy = 0.
  DPIPE_KERNEL_FUNCTION float AddTerms(int64_t c, int count, const Pack<T>& x_pack,
                                       const Pack<T>& dy_pack, float of_row, float sum) const {
    Pack<T> scales;
    LoadSpan(scale + c, count, scales.v);
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      sum = fmaf(dy_pack.v[j] * scales.v[j], x_pack.v[j] * of_row, sum);
    }
    return sum;
  }
  // Writes dx of the pack at channel c of a row.
  DPIPE_KERNEL_FUNCTION void Write(int64_t row, int64_t c, int count, const Pack<T>& x_pack,
                                   const Pack<T>& dy_pack, float of_row, float mean) const {
    Pack<T> scales, gradient;
    LoadSpan(scale + c, count, scales.v);
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      const float h = x_pack.v[j] * of_row;
      gradient.v[j] = of_row * fmaf(-h, mean, dy_pack.v[j] * scales.v[j]);
    }
    const int64_t i = row * shape.channels + c;
    if (addend != nullptr) AddTo(&gradient, LoadPack(addend + i, count));
    StorePack(dx + i, count, gradient);
  }
};

template <typename T, uint32_t kLanes>
struct RmsGradientOfRows {
  RmsGradTensors<T> of;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t channels = of.shape.channels, row = ThreadOfAll() / kLanes;
    const RowLanes<T, kLanes> lanes = {channels};
    const bool exists = row < of.Rows();
    Words x_words[kPacks], dy_words[kPacks];
    lanes.LoadRow(of.x + row * channels, exists, x_words);
    lanes.LoadRow(of.dy + row * channels, exists, dy_words);
    const float rstd = exists ? of.rstd[row] : 0.0f;
    Pack<T> x, dy;
    float sum = 0;
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      if (!lanes.Has(p)) continue;
      Unpack(x_words[p], &x);
      Unpack(dy_words[p], &dy);
      sum = of.AddTerms(lanes.Column(p), kPack<T>, x, dy, rstd, sum);
    }
    const float mean = lanes.Sum(sum) / static_cast<float>(channels);
    if (!exists) return;
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      if (!lanes.Has(p)) continue;
      Unpack(x_words[p], &x);
      Unpack(dy_words[p], &dy);
      of.Write(row, lanes.Column(p), kPack<T>, x, dy, rstd, mean);
    }
  }
};

template <typename T>
struct RmsGradientOfLongRows {
  RmsGradTensors<T> of;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t channels = of.shape.channels, row = ThreadOfAll() / kWarp;
    if (row >= of.Rows()) return;
    const T* const x = of.x + row * channels;
    const T* const dy = of.dy + row * channels;
    const float rstd = of.rstd[row];
    float sum = 0;
    ForPacks<T>(channels, [&](int64_t c, int count) {
      sum = of.AddTerms(c, count, LoadPack(x + c, count), LoadPack(dy + c, count), rstd, sum);
    });
    const float mean = WarpSum(sum) / static_cast<float>(channels);
    ForPacks<T>(channels, [&](int64_t c, int count) {
      of.Write(row, c, count, LoadPack(x + c, count), LoadPack(dy + c, count), rstd, mean);
    });
  }
};

template <uint32_t kLanes, typename T>
bool LaunchGradient(const Stream& stream, const RmsGradTensors<T>& of) {
  if (!RowLanes<T, kLanes>::Hold(of.shape.channels)) return false;
  Launch(stream, BlocksFor(of.Rows() * kLanes), RmsGradientOfRows<T, kLanes>{of});
  return true;
}

// Terms dy h of the weight gradient.
template <typename T>
struct RmsGradTerms {
  static constexpr int kTerms = 1, kInputs = 2;
  struct Channels {};
  const float* rstd;
  const T* inputs[kInputs];  // x, dy

  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk&) const { return {}; }
  DPIPE_KERNEL_FUNCTION void Add(const Channels&, int row, const Pack<T> (&in)[kInputs],
                                 float (&sums)[kTerms][kPack<T>]) const {
    const float of_row = rstd[row];
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      sums[0][j] = fmaf(in[1].v[j], in[0].v[j] * of_row, sums[0][j]);
    }
  }
  DPIPE_KERNEL_FUNCTION void Finish(const ColumnWalk&, float (&)[kTerms][kPack<T>]) const {}
};

struct AddSampleSums {
  int64_t batch, channels;
  const float* sums;
  float* dscale;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t c = ThreadOfAll();
    if (c >= channels) return;
    float total = dscale[c];
    for (int64_t b = 0; b < batch; ++b) total += sums[b * channels + c];
    dscale[c] = total;
  }
};

}  // namespace

template <typename T>
void RmsNormValues(const Stream& stream, int64_t rows, int64_t channels, float eps, const T* x,
                   const float* scale, float* rstd, T* y) {
  const RmsNormTensors<T> of = {rows, channels, eps, x, scale, rstd, y};
  if (LaunchNorm<8>(stream, of) || LaunchNorm<16>(stream, of) || LaunchNorm<32>(stream, of)) return;
  Launch(stream, BlocksFor(rows * kWarp), RmsNormaliseLongRows<T>{of});
}

template <typename T>
void RmsNormGradient(const Stream& stream, const ChannelsLast& shape, const T* x, const T* dy,
                     const float* rstd, const float* scale, const T* addend, float* run_sums,
                     float* sums, T* dx) {
  const RmsGradTensors<T> of = {shape, x, dy, rstd, scale, addend, dx};
  if (!LaunchGradient<8>(stream, of) && !LaunchGradient<16>(stream, of) &&
      !LaunchGradient<32>(stream, of)) {
    Launch(stream, BlocksFor(of.Rows() * kWarp), RmsGradientOfLongRows<T>{of});
  }
  LaunchSumRuns<T>(stream, RmsGradTerms<T>{rstd, {x, dy}}, shape, run_sums);
  LaunchFinishSums<false>(stream, shape, 1, shape.channels, 1, run_sums, sums);
}

void AddRmsNormWeightGrad(const Stream& stream, int64_t batch, int64_t channels, const float* sums,
                          float* dscale) {
  Launch(stream, BlocksFor(channels), AddSampleSums{batch, channels, sums, dscale});
}

#define DPIPE_INSTANTIATE(T)                                                                  \
  template void RmsNormValues(const Stream&, int64_t, int64_t, float, const T*, const float*, \
                              float*, T*);                                                    \
  template void RmsNormGradient(const Stream&, const ChannelsLast&, const T*, const T*,       \
                                const float*, const float*, const T*, float*, float*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
