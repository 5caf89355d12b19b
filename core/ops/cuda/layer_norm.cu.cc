#include "core/ops/cuda/layer_norm.h"

#include <cmath>

#include "core/ops/cuda/channel_sums.h"
#include "core/ops/cuda/reduce.h"

namespace dpipe::ops::cuda {
namespace {

// Packs of a lane.
constexpr int kPacks = 5;

// A row as the lanes of a warp hold it: kLanes neighbouring ones, each with every kLanes-th pack, a
// warp having kRows rows at once. As few lanes as can hold it, so that few are idle. Rows that are
// not whole packs, or too long, are ForPacks'. Which it is depends on a row's channels alone, and
// so does every sum's order.
template <typename T, uint32_t kLanes>
struct RowLanes {
  static constexpr uint32_t kRows = kWarp / kLanes;
  int64_t channels;

  static bool Hold(int64_t channels) {
    return channels % kPack<T> == 0 && Packs<T>(channels) <= int64_t{kPacks} * kLanes;
  }

  // The first channel of the lane's pack p.
  DPIPE_KERNEL_FUNCTION static int64_t Column(int p) {
    return int64_t{p * static_cast<int>(kLanes) + static_cast<int>(Thread() % kLanes)} * kPack<T>;
  }
  DPIPE_KERNEL_FUNCTION bool Has(int p) const { return Column(p) < channels; }

  // The lane's packs of the row at `from`, which are all asked for before the first one is used;
  // zeros where there are none.
  DPIPE_KERNEL_FUNCTION void LoadRow(const T* from, bool exists, Words (&words)[kPacks]) const {
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) words[p] = {};
    if (!exists) return;
    if (IsAligned(from)) {
      DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
        if (Has(p)) words[p] = LoadWords(from + Column(p));
      }
    } else {
      DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
        if (Has(p)) words[p] = WordsOf(LoadPack(from + Column(p), kPack<T>));
      }
    }
  }

  DPIPE_KERNEL_FUNCTION static float Sum(float of_lane) {
    for (uint32_t mask = kLanes / 2; mask > 0; mask /= 2) of_lane += LaneXor(of_lane, mask);
    return of_lane;
  }
};

// Calls f(c, count) for the packs of a row that is a whole warp's.
template <typename T, typename F>
DPIPE_KERNEL_FUNCTION void ForPacks(int64_t channels, const F& f) {
  for (int64_t c = int64_t{Thread() % kWarp} * kPack<T>; c < channels; c += kWarp * kPack<T>) {
    f(c, PackCount<T>(channels, c));
  }
}

template <typename T>
struct NormTensors {
  int64_t rows, channels;
  float eps;
  const T* x;
  const float* scale;
  const float* bias;
  float* stats;
  T* y;

  DPIPE_KERNEL_FUNCTION float Rstd(float squares) const {
    return 1.0f / sqrtf(squares / static_cast<float>(channels) + eps);
  }
  // Normalises the pack at channel c of a row.
  DPIPE_KERNEL_FUNCTION void Write(int64_t row, int64_t c, int count, float mean, float rstd,
                                   Pack<T> v) const {
    Pack<T> scales, biases;
    LoadSpan(scale + c, count, scales.v);
    LoadSpan(bias + c, count, biases.v);
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

// `squares` with those of what a pack's first `count` elements differ from the mean by.
template <typename T>
DPIPE_KERNEL_FUNCTION float AddSquares(const Pack<T>& v, int count, float mean, float squares) {
  DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
    const float d = v.v[j] - mean;
    if (j < count) squares = fmaf(d, d, squares);
  }
  return squares;
}

// `sum` with a pack's elements added to it.
template <typename T>
DPIPE_KERNEL_FUNCTION float AddElements(const Pack<T>& v, float sum) {
  DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) sum += v.v[j];
  return sum;
}

// Reads the row once.
template <typename T, uint32_t kLanes>
struct NormaliseRows {
  NormTensors<T> of;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const RowLanes<T, kLanes> lanes = {of.channels};
    const int64_t row = ThreadOfAll() / kLanes;
    const bool exists = row < of.rows;  // the warp's other rows need its lanes all the same
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

// The second and third reading of the row find it in the cache.
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

// With h = (x - mean) rstd:  dx = rstd (dy scale - mean of (dy scale) - h mean of (dy scale h)).
//
// There are two ways to the same bits. GradientOfRows is for dx alone, and GradTerms for the weight
// gradients' sums; BothGradients reads x and dy once for both.
template <typename T>
struct GradTensors {
  ChannelsLast shape;
  const T* x;
  const T* dy;
  const float* stats;
  const float* scale;
  const T* addend;
  T* dx;
};

// A row's statistics, and then its two means.
struct RowNumbers {
  float mean, rstd;
  float first = 0, second = 0;

  DPIPE_KERNEL_FUNCTION RowNumbers(const float* stats, int64_t row)
      : mean(stats[2 * row]), rstd(stats[2 * row + 1]) {}
  DPIPE_KERNEL_FUNCTION float H(float x) const { return (x - mean) * rstd; }
  // Adds a pack's terms of the means. Elements that a pack lacks have dy 0.
  template <typename T>
  DPIPE_KERNEL_FUNCTION void Add(const Pack<T>& x, const Pack<T>& dy, const Pack<T>& scale) {
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      const float d = dy.v[j] * scale.v[j];
      first += d;
      second = fmaf(d, H(x.v[j]), second);
    }
  }
  template <typename T>
  DPIPE_KERNEL_FUNCTION Pack<T> Gradient(const Pack<T>& x, const Pack<T>& dy,
                                         const Pack<T>& scale) const {
    Pack<T> dx;
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      dx.v[j] = rstd * (fmaf(dy.v[j], scale.v[j], -first) - H(x.v[j]) * second);
    }
    return dx;
  }
};

// dx of a row, of which kLanes lanes hold x, dy and what is added: all are asked for before the
// first is used. Calls visit(p, dy, h) for each pack of the lane.
template <typename T, uint32_t kLanes, typename Visit>
DPIPE_KERNEL_FUNCTION void DifferentiateRow(const GradTensors<T>& of, int64_t row, bool exists,
                                            const Visit& visit) {
  const int64_t channels = of.shape.channels, begin = row * channels;
  const RowLanes<T, kLanes> lanes = {channels};
  RowNumbers numbers(of.stats, exists ? row : 0);
  const bool adds = of.addend != nullptr;
  Words x_words[kPacks], dy_words[kPacks], addend_words[kPacks];
  lanes.LoadRow(of.x + begin, exists, x_words);
  lanes.LoadRow(of.dy + begin, exists, dy_words);
  lanes.LoadRow(adds ? of.addend + begin : nullptr, exists && adds, addend_words);
  Pack<T> x, dy, scale;
  DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
    if (!lanes.Has(p)) continue;
    Unpack(x_words[p], &x);
    Unpack(dy_words[p], &dy);
    LoadSpan(of.scale + lanes.Column(p), kPack<T>, scale.v);
    numbers.Add(x, dy, scale);
  }
  numbers.first = lanes.Sum(numbers.first) / static_cast<float>(channels);
  numbers.second = lanes.Sum(numbers.second) / static_cast<float>(channels);
  if (!exists) return;
  DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
    if (!lanes.Has(p)) continue;
    const int64_t i = begin + lanes.Column(p);
    Unpack(x_words[p], &x);
    Unpack(dy_words[p], &dy);
    LoadSpan(of.scale + lanes.Column(p), kPack<T>, scale.v);
    Pack<T> dx = numbers.Gradient(x, dy, scale);
    if (adds) {
      Pack<T> addend;
      Unpack(addend_words[p], &addend);
      AddTo(&dx, addend);
    }
    StorePack(of.dx + i, kPack<T>, dx);
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) x.v[j] = numbers.H(x.v[j]);
    visit(p, dy, x);
  }
}

template <typename T, uint32_t kLanes>
struct GradientOfRows {
  static constexpr int kBlocksAtOnce = 3;
  GradTensors<T> of;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t row = ThreadOfAll() / kLanes;
    DifferentiateRow<T, kLanes>(of, row, row < of.shape.batch * of.shape.positions,
                                [](int, const Pack<T>&, const Pack<T>&) {});
  }
};

template <typename T>
struct GradientOfLongRows {
  GradTensors<T> of;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t row = ThreadOfAll() / kWarp, channels = of.shape.channels;
    if (row >= of.shape.batch * of.shape.positions) return;
    const int64_t begin = row * channels;
    RowNumbers numbers(of.stats, row);
    Pack<T> scale;
    ForPacks<T>(channels, [&](int64_t c, int count) {
      LoadSpan(of.scale + c, count, scale.v);
      numbers.Add(LoadPack(of.x + begin + c, count), LoadPack(of.dy + begin + c, count), scale);
    });
    numbers.first = WarpSum(numbers.first) / static_cast<float>(channels);
    numbers.second = WarpSum(numbers.second) / static_cast<float>(channels);
    ForPacks<T>(channels, [&](int64_t c, int count) {
      LoadSpan(of.scale + c, count, scale.v);
      Pack<T> dx = numbers.Gradient(LoadPack(of.x + begin + c, count),
                                    LoadPack(of.dy + begin + c, count), scale);
      if (of.addend != nullptr) AddTo(&dx, LoadPack(of.addend + begin + c, count));
      StorePack(of.dx + begin + c, count, dx);
    });
  }
};

// dy and dy h, the weight gradients' terms.
template <typename T>
struct GradTerms {
  static constexpr int kTerms = 2, kInputs = 2;
  struct Channels {};
  const float* stats;
  const T* inputs[kInputs];  // x, dy

  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk&) const { return {}; }
  DPIPE_KERNEL_FUNCTION void Add(const Channels&, int row, const Pack<T> (&in)[kInputs],
                                 float (&sums)[kTerms][kPack<T>]) const {
    const RowNumbers numbers(stats, row);
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      sums[0][j] += in[1].v[j];
      sums[1][j] = fmaf(in[1].v[j], numbers.H(in[0].v[j]), sums[1][j]);
    }
  }
  DPIPE_KERNEL_FUNCTION void Finish(const ColumnWalk&, float (&)[kTerms][kPack<T>]) const {}
};

// A warp's kRows rows are of as many runs, and a block's warps take every kWarps-th row of them; a
// lane keeps the sums of its packs. As SumRuns adds them.
template <typename T, uint32_t kLanes>
struct BothGradients {
  using Lanes = RowLanes<T, kLanes>;
  GradTensors<T> of;
  float* run_sums;

  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t positions = of.shape.positions;
    const uint32_t runs = static_cast<uint32_t>(Runs(of.shape));
    const uint32_t run = Block() * Lanes::kRows + Thread() % kWarp / kLanes;
    const int64_t sample = run / runs, first = run % runs * kRunRows + Thread() / kWarp;
    const bool exists = sample < of.shape.batch;
    float sums[2][kPacks][kPack<T>] = {};
    for (int64_t r = 0; r < kRunRows && r < positions; r += kWarps) {
      DifferentiateRow<T, kLanes>(of, sample * positions + first + r,
                                  exists && first + r < positions,
                                  [&](int p, const Pack<T>& dy, const Pack<T>& h) {
                                    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
                                      sums[0][p][j] += dy.v[j];
                                      sums[1][p][j] = fmaf(dy.v[j], h.v[j], sums[1][p][j]);
                                    }
                                  });
    }
    Finish(run, exists, sums);
  }

 private:
  // Adds up the warps' sums, a pack of each lane at a time.
  DPIPE_KERNEL_FUNCTION void Finish(int64_t run, bool exists,
                                    const float (&sums)[2][kPacks][kPack<T>]) const {
    constexpr uint32_t kSums = 2 * kPack<T>;
    DPIPE_SHARED(float, partial, kSums* kThreads);
    const Lanes lanes = {of.shape.channels};
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      DPIPE_UNROLL for (uint32_t s = 0; s < kSums; ++s) {
        partial[s * kThreads + Thread()] = sums[s / kPack<T>][p][s % kPack<T>];
      }
      Barrier();
      for (uint32_t s = Thread() / kWarp; s < kSums; s += kWarps) {
        if (!exists || !lanes.Has(p)) continue;
        const int64_t row = run * 2 + s / kPack<T>;
        run_sums[row * of.shape.channels + lanes.Column(p) + s % kPack<T>] = AddWarps(partial, s);
      }
      Barrier();  // before the next pack is written
    }
  }
};

// Fewer blocks than this leave too much of a GPU idle.
constexpr int64_t kFewestBlocks = 128;

// What has been launched: nothing, what computes dx, or what computes dx and run_sums.
enum class Launched { kNothing, kGradient, kBoth };

template <uint32_t kLanes, typename T>
Launched LaunchGradients(const Stream& stream, const GradTensors<T>& of, float* run_sums) {
  using Lanes = RowLanes<T, kLanes>;
  if (!Lanes::Hold(of.shape.channels)) return Launched::kNothing;
  const int64_t blocks = (of.shape.batch * Runs(of.shape) + Lanes::kRows - 1) / Lanes::kRows;
  if (blocks >= kFewestBlocks) {
    Launch(stream, BlocksFor(blocks * kThreads), BothGradients<T, kLanes>{of, run_sums});
    return Launched::kBoth;
  }
  Launch(stream, BlocksFor(of.shape.batch * of.shape.positions * kLanes),
         GradientOfRows<T, kLanes>{of});
  return Launched::kGradient;
}

template <uint32_t kLanes, typename T>
bool LaunchNorm(const Stream& stream, const NormTensors<T>& of) {
  if (!RowLanes<T, kLanes>::Hold(of.channels)) return false;
  Launch(stream, BlocksFor(of.rows * kLanes), NormaliseRows<T, kLanes>{of});
  return true;
}

}  // namespace

template <typename T>
void LayerNormValues(const Stream& stream, int64_t rows, int64_t channels, float eps, const T* x,
                     const float* scale, const float* bias, float* stats, T* y) {
  const NormTensors<T> of = {rows, channels, eps, x, scale, bias, stats, y};
  // In bf16 up to 320, 640 and 1280 channels.
  if (LaunchNorm<8>(stream, of) || LaunchNorm<16>(stream, of) || LaunchNorm<32>(stream, of)) return;
  Launch(stream, BlocksFor(rows * kWarp), NormaliseLongRows<T>{of});
}

template <typename T>
void LayerNormGradient(const Stream& stream, const ChannelsLast& shape, const T* x, const T* dy,
                       const float* stats, const float* scale, const T* addend, float* run_sums,
                       float* sums, T* dx) {
  const GradTensors<T> of = {shape, x, dy, stats, scale, addend, dx};
  Launched launched = LaunchGradients<8>(stream, of, run_sums);
  if (launched == Launched::kNothing) launched = LaunchGradients<16>(stream, of, run_sums);
  if (launched == Launched::kNothing) launched = LaunchGradients<32>(stream, of, run_sums);
  if (launched == Launched::kNothing) {
    Launch(stream, BlocksFor(shape.batch * shape.positions * kWarp), GradientOfLongRows<T>{of});
  }
  if (launched != Launched::kBoth) {
    LaunchSumRuns<T>(stream, GradTerms<T>{stats, {x, dy}}, shape, run_sums);
  }
  LaunchFinishSums<false>(stream, shape, 2, shape.channels, 1, run_sums, sums);
}

#define DPIPE_INSTANTIATE(T)                                                                    \
  template void LayerNormValues(const Stream&, int64_t, int64_t, float, const T*, const float*, \
                                const float*, float*, T*);                                      \
  template void LayerNormGradient(const Stream&, const ChannelsLast&, const T*, const T*,       \
                                  const float*, const float*, const T*, float*, float*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
