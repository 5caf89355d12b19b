#include <cmath>

#include "core/ops/cuda/kernels/async_copy.h"
#include "core/ops/cuda/kernels/channel_sums.h"
#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/cuda/kernels/norm.h"
#include "core/ops/cuda/kernels/norm_rows.h"

namespace dpipe::ops::cuda {
namespace {

// With h = (x - mean) rstd:  dx = rstd (dy scale - mean of (dy scale) - h mean of (dy scale h)).
//
// There are two implementations with the same bits. GradientOfRows computes only dx, and GradTerms
// the sums for the weight gradients. BothGradients reads x and dy once for both.
template <typename T>
struct GradTensors {
  ChannelsLast shape;
  const T* x;
  const T* dy;
  const float* stats;
  const float* scale;
  int64_t scale_stride;  // between samples; 0: one scale for all
  const T* addend;
  T* dx;

  DPIPE_KERNEL_FUNCTION const float* ScaleOf(int64_t row) const {
    const uint32_t sample = static_cast<uint32_t>(row) / static_cast<uint32_t>(shape.positions);
    return scale + sample * scale_stride;
  }
};

struct RowStats {
  float mean, rstd;
};
DPIPE_KERNEL_FUNCTION RowStats LoadStats(const float* stats, int64_t row) {
  return {stats[2 * row], stats[2 * row + 1]};
}

// A row's statistics and its two means.
struct RowNumbers {
  float mean, rstd;
  float first = 0, second = 0;

  DPIPE_KERNEL_FUNCTION explicit RowNumbers(const RowStats& stats)
      : mean(stats.mean), rstd(stats.rstd) {}
  DPIPE_KERNEL_FUNCTION float H(float x) const { return (x - mean) * rstd; }
  // Adds a pack's terms to the sums of the means. Missing elements of a pack have dy = 0.
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

// Loads a whole pack. kAligned: known to be aligned.
template <bool kAligned, typename T>
DPIPE_KERNEL_FUNCTION Words LoadWhole(const T* p) {
  return kAligned ? LoadWords(p) : WordsOf(LoadPack(p, kPack<T>));
}
template <bool kAligned, typename T>
DPIPE_KERNEL_FUNCTION void StoreWhole(T* p, const Pack<T>& pack) {
  if constexpr (kAligned) {
    StoreWords(p, WordsOf(pack));
  } else {
    StorePack(p, kPack<T>, pack);
  }
}
template <bool kAligned, int kSize>
DPIPE_KERNEL_FUNCTION void LoadWholeSpan(const float* p, float (&v)[kSize]) {
  DPIPE_UNROLL for (int begin = 0; begin < kSize; begin += 4) {
    Pack<float> pack;
    Unpack(LoadWhole<kAligned>(p + begin), &pack);
    DPIPE_UNROLL for (int j = 0; j < 4; ++j) v[begin + j] = pack.v[j];
  }
}

// Computes dx of a row. kLanes lanes hold x and dy: x_words(p) and dy_words(p) return pack p after
// visitor.Await(p). The addend is requested one pack ahead. Calls visitor.Visit(p, dy, h) for each
// pack of the lane and, if the row exists, visitor.Done(p) for each p once pack p is no longer
// needed. `scales`: of the row's sample.
template <typename T, uint32_t kLanes, bool kAligned, typename Hold, typename Visitor>
DPIPE_KERNEL_FUNCTION void DifferentiateRow(const GradTensors<T>& of, const float* scales,
                                            int64_t row, bool exists, const RowStats& stats,
                                            const Hold& x_words, const Hold& dy_words,
                                            Visitor& visitor) {
  const int64_t channels = of.shape.channels, begin = row * channels;
  const RowLanes<T, kLanes> lanes = {channels};
  const bool adds = of.addend != nullptr;
  Words next_addend = {};
  const auto ask_addend = [&](int p) {
    if (!adds || !exists || !lanes.Has(p)) return;
    next_addend = LoadWhole<kAligned>(of.addend + begin + lanes.Column(p));
  };
  ask_addend(0);
  RowNumbers numbers(stats);
  Pack<T> x, dy, scale;
  DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
    visitor.Await(p);
    if (!lanes.Has(p)) continue;
    Unpack(x_words(p), &x);
    Unpack(dy_words(p), &dy);
    LoadWholeSpan<kAligned>(scales + lanes.Column(p), scale.v);
    numbers.Add(x, dy, scale);
  }
  numbers.first = lanes.Sum(numbers.first) / static_cast<float>(channels);
  numbers.second = lanes.Sum(numbers.second) / static_cast<float>(channels);
  if (!exists) return;
  DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
    if (lanes.Has(p)) {
      Unpack(x_words(p), &x);
      Unpack(dy_words(p), &dy);
      LoadWholeSpan<kAligned>(scales + lanes.Column(p), scale.v);
      const Words addend_words = next_addend;
      ask_addend(p + 1);
      Pack<T> dx = numbers.Gradient(x, dy, scale);
      if (adds) {
        Pack<T> addend;
        Unpack(addend_words, &addend);
        AddTo(&dx, addend);
      }
      StoreWhole<kAligned>(of.dx + begin + lanes.Column(p), dx);
      DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) x.v[j] = numbers.H(x.v[j]);
      visitor.Visit(p, dy, x);
    }
    visitor.Done(p);
  }
}

// Storage of a lane's part of a row: in registers, or in shared memory, with packs kThreads Words
// apart.
struct InRegisters {
  Words words[kPacks];
  DPIPE_KERNEL_FUNCTION Words operator()(int p) const { return words[p]; }
};
struct InSharedMemory {
  Words* words;
  DPIPE_KERNEL_FUNCTION Words operator()(int p) const { return words[p * kThreads]; }
};

// For dx alone, with the row in registers.
struct NoVisitor {
  DPIPE_KERNEL_FUNCTION void Await(int) {}
  template <typename P>
  DPIPE_KERNEL_FUNCTION void Visit(int, const P&, const P&) {}
  DPIPE_KERNEL_FUNCTION void Done(int) {}
};

template <typename T, uint32_t kLanes>
struct GradientOfRows {
  static constexpr int kBlocksAtOnce = 3;
  GradTensors<T> of;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const RowLanes<T, kLanes> lanes = {of.shape.channels};
    const int64_t row = ThreadOfAll() / kLanes;
    const bool exists = row < of.shape.batch * of.shape.positions;
    InRegisters x, dy;
    lanes.LoadRow(of.x + row * of.shape.channels, exists, x.words);
    lanes.LoadRow(of.dy + row * of.shape.channels, exists, dy.words);
    NoVisitor visitor;
    const RowStats stats = LoadStats(of.stats, exists ? row : 0);
    DifferentiateRow<T, kLanes, false>(of, of.ScaleOf(exists ? row : 0), row, exists, stats, x, dy,
                                       visitor);
  }
};

template <typename T>
struct GradientOfLongRows {
  GradTensors<T> of;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t row = ThreadOfAll() / kWarp, channels = of.shape.channels;
    if (row >= of.shape.batch * of.shape.positions) return;
    const int64_t begin = row * channels;
    const float* const scales = of.ScaleOf(row);
    RowNumbers numbers(LoadStats(of.stats, row));
    Pack<T> scale;
    ForPacks<T>(channels, [&](int64_t c, int count) {
      LoadSpan(scales + c, count, scale.v);
      numbers.Add(LoadPack(of.x + begin + c, count), LoadPack(of.dy + begin + c, count), scale);
    });
    numbers.first = WarpSum(numbers.first) / static_cast<float>(channels);
    numbers.second = WarpSum(numbers.second) / static_cast<float>(channels);
    ForPacks<T>(channels, [&](int64_t c, int count) {
      LoadSpan(scales + c, count, scale.v);
      Pack<T> dx = numbers.Gradient(LoadPack(of.x + begin + c, count),
                                    LoadPack(of.dy + begin + c, count), scale);
      if (of.addend != nullptr) AddTo(&dx, LoadPack(of.addend + begin + c, count));
      StorePack(of.dx + begin + c, count, dx);
    });
  }
};

// Terms dy and dy h of the weight gradients.
template <typename T>
struct GradTerms {
  static constexpr int kTerms = 2, kInputs = 2;
  struct Channels {};
  const float* stats;
  const T* inputs[kInputs];  // x, dy

  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk&) const { return {}; }
  DPIPE_KERNEL_FUNCTION void Add(const Channels&, int row, const Pack<T> (&in)[kInputs],
                                 float (&sums)[kTerms][kPack<T>]) const {
    const RowNumbers numbers(LoadStats(stats, row));
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      sums[0][j] += in[1].v[j];
      sums[1][j] = fmaf(in[1].v[j], numbers.H(in[0].v[j]), sums[1][j]);
    }
  }
  DPIPE_KERNEL_FUNCTION void Finish(const ColumnWalk&, float (&)[kTerms][kPack<T>]) const {}
};

// Computes dx and the sums of the weight gradients. A warp's kRows rows belong to as many runs, and
// a block's warps take every kWarps-th row of these runs. A lane keeps the sums of its packs. The
// order of additions is that of SumRuns. All tensors must be aligned, and samples share a scale:
// one of their own would take registers that there are not.
//
// With 128 registers per thread, two blocks fit on a multiprocessor. In bf16, the sums alone need
// 80 of them, so x and dy are copied to shared memory. A pack of the next row is requested as soon
// as the same pack of the current row is done, and the next row begins when its first pack has
// arrived. The addend does not fit there; it is prefetched, and loaded one pack ahead.
template <typename T, uint32_t kLanes>
struct BothGradients {
  using Lanes = RowLanes<T, kLanes>;
  static constexpr int kBlocksAtOnce = 2;
  GradTensors<T> of;
  float* run_sums;

  // A lane's sums of dy and of dy h. The last pack's sums of dy h are in shared memory.
  struct Sums {
    float v[2 * kPacks - 1][kPack<T>];
    float* last;
    DPIPE_KERNEL_FUNCTION float& At(int k, int j) {
      return k < 2 * kPacks - 1 ? v[k][j] : last[j * kThreads];
    }
  };

  // A lane's progress through its rows.
  struct Walk {
    const GradTensors<T>& of;
    const InSharedMemory& x;
    const InSharedMemory& dy;
    int64_t next_row;  // numbered over all samples
    int64_t left;      // rows from next_row on, in steps of kWarps; 0 or less: none
    Sums sums = {};
    AsyncCopies<2 * kPacks> copies = {};

    // Starts copying pack p of the next row, as a separate group. The group is empty if there is no
    // such row or pack.
    DPIPE_KERNEL_FUNCTION void Ask(int p) {
      if (left > 0 && Lanes{of.shape.channels}.Has(p)) {
        const int64_t i = next_row * of.shape.channels + Lanes::Column(p);
        copies.Copy(of.x + i, x.words + p * kThreads);
        copies.Copy(of.dy + i, dy.words + p * kThreads);
        if (of.addend != nullptr) Prefetch(of.addend + i);
      }
      copies.EndGroup();
    }
    DPIPE_KERNEL_FUNCTION RowStats NextStats() const {
      return LoadStats(of.stats, left > 0 ? next_row : 0);
    }
    DPIPE_KERNEL_FUNCTION void Advance() {
      next_row += kWarps;
      left -= kWarps;
    }

    // Blocks until pack p has arrived. Packs p + 1 and later may still be in flight.
    DPIPE_KERNEL_FUNCTION void Await(int p) {
      static_assert(kPacks == 5, "needs one case per pack");
      switch (p) {
        case 0:
          return copies.template Wait<4>();
        case 1:
          return copies.template Wait<3>();
        case 2:
          return copies.template Wait<2>();
        case 3:
          return copies.template Wait<1>();
        default:
          return copies.template Wait<0>();
      }
    }
    DPIPE_KERNEL_FUNCTION void Visit(int p, const Pack<T>& dy_pack, const Pack<T>& h) {
      DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
        sums.At(2 * p, j) += dy_pack.v[j];
        sums.At(2 * p + 1, j) = fmaf(dy_pack.v[j], h.v[j], sums.At(2 * p + 1, j));
      }
    }
    DPIPE_KERNEL_FUNCTION void Done(int p) { Ask(p); }
  };

  DPIPE_KERNEL_FUNCTION void operator()() const {
    DPIPE_SHARED(Words, slots, 2 * kPacks * kThreads);
    DPIPE_SHARED(float, last, kPack<T>* kThreads);
    const InSharedMemory x = {slots + Thread()}, dy = {x.words + kPacks * kThreads};
    const int64_t positions = of.shape.positions;
    const uint32_t runs = static_cast<uint32_t>(Runs(of.shape));
    const uint32_t run = Block() * Lanes::kRows + Thread() % kWarp / kLanes;
    const int64_t sample = run / runs, warp = Thread() / kWarp;
    const int64_t begin = run % runs * kRunRows, left = positions - begin;
    const bool exists = sample < of.shape.batch;
    Walk walk = {of, x, dy, sample * positions + begin + warp,
                 exists ? (left < kRunRows ? left : kRunRows) - warp : 0};
    walk.sums.last = last + Thread();
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) walk.sums.last[j * kThreads] = 0;
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) walk.Ask(p);
    RowStats next_stats = walk.NextStats();
    // The same number of iterations for all lanes of a warp.
    for (int64_t r = 0; r < kRunRows && r < positions; r += kWarps) {
      const int64_t row = walk.next_row;
      const bool has_row = walk.left > 0;
      const RowStats stats = next_stats;
      walk.Advance();
      next_stats = walk.NextStats();
      DifferentiateRow<T, kLanes, true>(of, of.scale, row, has_row, stats, x, dy, walk);
    }
    Barrier();  // before other threads' slots are written
    Finish(run, exists, walk.sums, reinterpret_cast<float*>(slots));
  }

 private:
  // Adds up the warps' sums, one pack of each lane at a time.
  DPIPE_KERNEL_FUNCTION void Finish(int64_t run, bool exists, Sums& sums, float* partial) const {
    constexpr uint32_t kSums = 2 * kPack<T>;
    static_assert(kSums <= 2 * kPacks * sizeof(Words) / sizeof(float),
                  "the sums do not fit in the slots");
    const Lanes lanes = {of.shape.channels};
    DPIPE_UNROLL for (int p = 0; p < kPacks; ++p) {
      DPIPE_UNROLL for (uint32_t s = 0; s < kSums; ++s) {
        partial[s * kThreads + Thread()] = sums.At(2 * p + s / kPack<T>, s % kPack<T>);
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

// With fewer blocks than this, too much of a GPU is idle.
constexpr int64_t kMinBlocks = 128;

// What has been launched: nothing, the kernels for dx, or those for dx and run_sums.
enum class Launched { kNothing, kGradient, kBoth };

template <uint32_t kLanes, typename T>
Launched LaunchGradients(const Stream& stream, const GradTensors<T>& of, float* run_sums) {
  using Lanes = RowLanes<T, kLanes>;
  if (!Lanes::Hold(of.shape.channels)) return Launched::kNothing;
  const int64_t blocks = (of.shape.batch * Runs(of.shape) + Lanes::kRows - 1) / Lanes::kRows;
  const bool aligned = IsAligned(of.x) && IsAligned(of.dy) && IsAligned(of.scale) &&
                       of.scale_stride == 0 && IsAligned(of.addend) && IsAligned(of.dx);
  if (blocks >= kMinBlocks && aligned) {
    Launch(stream, BlocksFor(blocks * kThreads), BothGradients<T, kLanes>{of, run_sums});
    return Launched::kBoth;
  }
  Launch(stream, BlocksFor(of.shape.batch * of.shape.positions * kLanes),
         GradientOfRows<T, kLanes>{of});
  return Launched::kGradient;
}

}  // namespace

template <typename T>
void LayerNormGradient(const Stream& stream, const ChannelsLast& shape, const T* x, const T* dy,
                       const float* stats, const float* scale, int64_t scale_stride,
                       const T* addend, float* run_sums, float* sums, T* dx) {
  const GradTensors<T> of = {shape, x, dy, stats, scale, scale_stride, addend, dx};
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

#define DPIPE_INSTANTIATE(T)                                                                     \
  template void LayerNormGradient(const Stream&, const ChannelsLast&, const T*, const T*,        \
                                  const float*, const float*, int64_t, const T*, float*, float*, \
                                  T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
