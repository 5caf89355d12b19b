#include "core/ops/cuda/layer_norm.h"

#include <cmath>

#include "core/ops/cuda/channel_sums.h"
#include "core/ops/cuda/reduce.h"

namespace dpipe::ops::cuda {
namespace {

// The row of this thread's warp, and its packs: every 32nd from the lane's own on.
DPIPE_KERNEL_FUNCTION int64_t RowOfWarp() { return ThreadOfAll() / kWarp; }

template <typename T, typename F>
DPIPE_KERNEL_FUNCTION void ForPacks(int64_t channels, const F& f) {
  for (int64_t c = int64_t{Thread() % kWarp} * kPack<T>; c < channels; c += kWarp * kPack<T>) {
    f(c, PackCount<T>(channels, c));
  }
}

// Mean and variance in two passes over the row, whose second and third reading find it in the
// cache.
template <typename T>
struct NormaliseRows {
  int64_t rows, channels;
  float eps;
  const T* x;
  const float* scale;
  const float* bias;
  float* stats;
  T* y;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t row = RowOfWarp();
    if (row >= rows) return;
    const T* const from = x + row * channels;
    float sum = 0;
    ForPacks<T>(channels, [&](int64_t c, int count) {
      const Pack<T> v = LoadPack(from + c, count);
      for (int j = 0; j < kPack<T>; ++j) sum += v.v[j];
    });
    const float mean = WarpSum(sum) / static_cast<float>(channels);
    float squares = 0;
    ForPacks<T>(channels, [&](int64_t c, int count) {
      const Pack<T> v = LoadPack(from + c, count);
      for (int j = 0; j < kPack<T>; ++j) {
        const float d = j < count ? v.v[j] - mean : 0.0f;
        squares += d * d;
      }
    });
    const float rstd = 1.0f / sqrtf(WarpSum(squares) / static_cast<float>(channels) + eps);
    ForPacks<T>(channels, [&](int64_t c, int count) {
      Pack<T> v = LoadPack(from + c, count);
      for (int j = 0; j < count; ++j) {
        v.v[j] = (v.v[j] - mean) * rstd * scale[c + j] + bias[c + j];
      }
      StorePack(y + row * channels + c, count, v.v);
    });
    if (Thread() % kWarp == 0) {
      stats[2 * row] = mean;
      stats[2 * row + 1] = rstd;
    }
  }
};

// With h = (x - mean) rstd:  dx = rstd (dy scale - mean of (dy scale) - h mean of (dy scale h)).
//
// Two ways to the same bits. RowGradient is for dx alone, and GradTerms for the weight gradients'
// sums; BothGradients reads x and dy once for both.
template <typename T>
struct RowGradient {
  int64_t rows, channels;
  const T* x;
  const T* dy;
  const float* stats;
  const float* scale;
  const T* addend;
  T* dx;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t row = RowOfWarp();
    if (row >= rows) return;
    const int64_t begin = row * channels;
    const float mean = stats[2 * row], rstd = stats[2 * row + 1];
    float first = 0, second = 0;
    ForPacks<T>(channels, [&](int64_t c, int count) {
      const Pack<T> vx = LoadPack(x + begin + c, count), vd = LoadPack(dy + begin + c, count);
      for (int j = 0; j < count; ++j) {
        const float d = vd.v[j] * scale[c + j];
        first += d;
        second += d * ((vx.v[j] - mean) * rstd);
      }
    });
    first = WarpSum(first) / static_cast<float>(channels);
    second = WarpSum(second) / static_cast<float>(channels);
    ForPacks<T>(channels, [&](int64_t c, int count) {
      Pack<T> vx = LoadPack(x + begin + c, count);
      const Pack<T> vd = LoadPack(dy + begin + c, count);
      for (int j = 0; j < count; ++j) {
        const float h = (vx.v[j] - mean) * rstd;
        vx.v[j] = rstd * (vd.v[j] * scale[c + j] - first - h * second);
      }
      if (addend != nullptr) AddPack(addend + begin + c, count, &vx);
      StorePack(dx + begin + c, count, vx.v);
    });
  }
};

// dy and dy h, the weight gradients' terms.
template <typename T>
struct GradTerms {
  static constexpr int kTerms = 2;
  struct Channels {};
  int64_t channels;
  const T* x;
  const T* dy;
  const float* stats;

  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk&) const { return {}; }
  DPIPE_KERNEL_FUNCTION void Add(const Channels&, const ColumnWalk& walk, int64_t i,
                                 float (&sums)[kTerms][kPack<T>]) const {
    const int64_t row = i / channels;
    const float mean = stats[2 * row], rstd = stats[2 * row + 1];
    const Pack<T> vx = LoadPack(x + i, walk.count), vd = LoadPack(dy + i, walk.count);
    for (int j = 0; j < kPack<T>; ++j) {
      sums[0][j] += vd.v[j];
      sums[1][j] += vd.v[j] * ((vx.v[j] - mean) * rstd);
    }
  }
};

// A block a run of a sample's rows, whose warps take every eighth; a lane keeps the sums of its
// kPacks packs. As SumRuns adds them.
template <typename T, int kPacks>
struct BothGradients {
  ChannelsLast shape;
  const T* x;
  const T* dy;
  const float* stats;
  const float* scale;
  const T* addend;
  float* run_sums;
  T* dx;

  // The first channel of the lane's pack p, and how many of its channels there are.
  DPIPE_KERNEL_FUNCTION static int64_t Column(int p) {
    return int64_t{p * static_cast<int>(kWarp) + static_cast<int>(Thread() % kWarp)} * kPack<T>;
  }
  DPIPE_KERNEL_FUNCTION int Count(int p) const {
    return Column(p) < shape.channels ? PackCount<T>(shape.channels, Column(p)) : 0;
  }

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const uint32_t runs = static_cast<uint32_t>(Runs(shape));
    const int64_t sample = Block() / runs, begin = Block() % runs * kRunRows;
    const int64_t end = begin + kRunRows < shape.positions ? begin + kRunRows : shape.positions;
    float sums[2][kPacks][kPack<T>] = {};
    for (int64_t row = begin + Thread() / kWarp; row < end; row += kWarps) {
      Row(sample * shape.positions + row, sums);
    }
    Finish(Block(), sums);
  }

 private:
  DPIPE_KERNEL_FUNCTION void Row(int64_t row, float (&sums)[2][kPacks][kPack<T>]) const {
    const float mean = stats[2 * row], rstd = stats[2 * row + 1];
    Pack<T> h[kPacks] = {}, d[kPacks] = {};
    float first = 0, second = 0;
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      const int count = Count(p);
      if (count == 0) continue;
      const int64_t c = Column(p);
      h[p] = LoadPack(x + row * shape.channels + c, count);
      d[p] = LoadPack(dy + row * shape.channels + c, count);
      for (int j = 0; j < kPack<T>; ++j) {
        if (j >= count) continue;
        h[p].v[j] = (h[p].v[j] - mean) * rstd;
        const float scaled = d[p].v[j] * scale[c + j];
        first += scaled;
        second += scaled * h[p].v[j];
        sums[0][p][j] += d[p].v[j];
        sums[1][p][j] += d[p].v[j] * h[p].v[j];
      }
    }
    first = WarpSum(first) / static_cast<float>(shape.channels);
    second = WarpSum(second) / static_cast<float>(shape.channels);
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      const int count = Count(p);
      if (count == 0) continue;
      const int64_t c = Column(p), i = row * shape.channels + c;
      for (int j = 0; j < kPack<T>; ++j) {
        if (j >= count) continue;
        h[p].v[j] = rstd * (d[p].v[j] * scale[c + j] - first - h[p].v[j] * second);
      }
      if (addend != nullptr) AddPack(addend + i, count, &h[p]);
      StorePack(dx + i, count, h[p].v);
    }
  }

  // Adds up the warps' sums, a pack of each lane at a time.
  DPIPE_KERNEL_FUNCTION void Finish(int64_t run, const float (&sums)[2][kPacks][kPack<T>]) const {
    constexpr uint32_t kSums = 2 * kPack<T>;
    DPIPE_SHARED(float, partial, kSums* kThreads);
    const uint32_t lane = Thread() % kWarp;
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      DPIPE_UNROLL for (uint32_t s = 0; s < kSums; ++s) {
        partial[s * kThreads + Thread()] = sums[s / kPack<T>][p][s % kPack<T>];
      }
      Barrier();
      for (uint32_t s = Thread() / kWarp; s < kSums; s += kWarps) {
        if (static_cast<int>(s % kPack<T>) >= Count(p)) continue;
        float sum = partial[s * kThreads + lane];
        for (uint32_t w = 1; w < kWarps; ++w) sum += partial[s * kThreads + w * kWarp + lane];
        const int64_t row = run * 2 + s / kPack<T>;
        run_sums[row * shape.channels + Column(p) + s % kPack<T>] = sum;
      }
      Barrier();  // before the next pack is written
    }
  }
};

// Fewer blocks than this leave too much of a GPU idle.
constexpr int64_t kFewestBlocks = 128;

// Whether BothGradients was launched.
template <int kPacks, typename T>
bool LaunchBoth(const Stream& stream, const ChannelsLast& shape, const T* x, const T* dy,
                const float* stats, const float* scale, const T* addend, float* run_sums, T* dx) {
  const int64_t blocks = shape.batch * Runs(shape);
  if (blocks < kFewestBlocks || Packs<T>(shape.channels) > int64_t{kPacks} * kWarp) return false;
  Launch(stream, BlocksFor(blocks * kThreads),
         BothGradients<T, kPacks>{shape, x, dy, stats, scale, addend, run_sums, dx});
  return true;
}

}  // namespace

template <typename T>
void LayerNormValues(const Stream& stream, int64_t rows, int64_t channels, float eps, const T* x,
                     const float* scale, const float* bias, float* stats, T* y) {
  Launch(stream, BlocksFor(rows * kWarp),
         NormaliseRows<T>{rows, channels, eps, x, scale, bias, stats, y});
}

template <typename T>
void LayerNormGradient(const Stream& stream, const ChannelsLast& shape, const T* x, const T* dy,
                       const float* stats, const float* scale, const T* addend, float* run_sums,
                       float* sums, T* dx) {
  const int64_t rows = shape.batch * shape.positions, channels = shape.channels;
  // In bf16 up to 256, 512, 768 and 1280 channels.
  const bool both = LaunchBoth<1>(stream, shape, x, dy, stats, scale, addend, run_sums, dx) ||
                    LaunchBoth<2>(stream, shape, x, dy, stats, scale, addend, run_sums, dx) ||
                    LaunchBoth<3>(stream, shape, x, dy, stats, scale, addend, run_sums, dx) ||
                    LaunchBoth<5>(stream, shape, x, dy, stats, scale, addend, run_sums, dx);
  if (!both) {
    Launch(stream, BlocksFor(rows * kWarp),
           RowGradient<T>{rows, channels, x, dy, stats, scale, addend, dx});
    LaunchSumRuns<T>(stream, GradTerms<T>{channels, x, dy, stats}, shape, run_sums);
  }
  LaunchFinishSums<false>(stream, shape, 2, channels, 1, run_sums, sums);
}

#define DPIPE_INSTANTIATE(T)                                                                    \
  template void LayerNormValues(const Stream&, int64_t, int64_t, float, const T*, const float*, \
                                const float*, float*, T*);                                      \
  template void LayerNormGradient(const Stream&, const ChannelsLast&, const T*, const T*,       \
                                  const float*, const float*, const T*, float*, float*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
