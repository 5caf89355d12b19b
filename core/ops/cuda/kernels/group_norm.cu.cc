#include <cmath>
#include <type_traits>

#include "core/ops/cuda/kernels/channel_sums.h"
#include "core/ops/cuda/kernels/curves.h"
#include "core/ops/cuda/kernels/kernel.h"
#include "core/ops/cuda/kernels/norm.h"

namespace dpipe::ops::cuda {
namespace {

// Returns the number that is subtracted from x before it is summed.
template <typename T>
DPIPE_KERNEL_FUNCTION float Shift(const GroupNormShape& shape, const T* x, int64_t sample,
                                  int64_t group) {
  const int64_t width = shape.x.channels / shape.groups;
  return Load(x + sample * shape.x.positions * shape.x.channels + group * width);
}

// Calls f(j, group) for the channels j of a pack. Groups are numbered within a sample.
template <typename T, typename F>
DPIPE_KERNEL_FUNCTION void ForChannels(const GroupNormShape& shape, const ColumnWalk& walk,
                                       const F& f) {
  const uint32_t width =
      static_cast<uint32_t>(shape.x.channels) / static_cast<uint32_t>(shape.groups);
  uint32_t group = static_cast<uint32_t>(walk.column) / width;
  uint32_t left = width - static_cast<uint32_t>(walk.column) % width;
  DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
    if (j < walk.count) f(j, group);
    if (--left == 0) {
      left = width;
      ++group;
    }
  }
}

template <typename T>
struct Moments {
  static constexpr int kTerms = 2, kInputs = 1;
  using Channels = Pack<T>;  // the shift of each channel
  GroupNormShape shape;
  const T* inputs[kInputs];  // x

  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk& walk) const {
    Channels shift = {};
    ForChannels<T>(shape, walk, [&](int j, uint32_t group) {
      shift.v[j] = Shift(shape, inputs[0], walk.sample, group);
    });
    return shift;
  }
  DPIPE_KERNEL_FUNCTION void Add(const Channels& shift, int, const Pack<T> (&x)[kInputs],
                                 float (&sums)[kTerms][kPack<T>]) const {
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      const float d = x[0].v[j] - shift.v[j];
      sums[0][j] += d;
      sums[1][j] = fmaf(d, d, sums[1][j]);
    }
  }
  DPIPE_KERNEL_FUNCTION void Finish(const ColumnWalk&, float (&)[kTerms][kPack<T>]) const {}
};

// A group is processed by a warp, or by a block if its channels have many runs: 8,192 for the VAE
// at 512 x 512 pixels, with few samples. The choice depends only on the shape, so that sums have
// one order.
constexpr int64_t kMaxOfWarp = 512;
bool IsOfBlock(const GroupNormShape& shape) {
  return shape.x.channels / shape.groups * Runs(shape.x) > kMaxOfWarp;
}

template <bool kOfBlock>
struct GroupThreads {
  static constexpr uint32_t kCount = kOfBlock ? kThreads : kWarp;
  int64_t group;  // numbered over all samples
  uint32_t lane = Thread() % kCount;
  DPIPE_KERNEL_FUNCTION GroupThreads() : group(kOfBlock ? Block() : ThreadOfAll() / kWarp) {}
  DPIPE_KERNEL_FUNCTION double Sum(double value) const {
    if constexpr (kOfBlock) return BlockSum(value);
    return WarpSum(value);
  }
};

// Sums over a group of the results of SumRuns. The group's threads are side by side along the
// channels, repeated along the runs as often as fits.
struct GroupSums {
  double first, second;
};
template <typename Threads, typename Factor>
DPIPE_KERNEL_FUNCTION GroupSums SumGroup(const GroupNormShape& shape, const float* run_sums,
                                         const Threads& threads, const Factor& factor) {
  constexpr uint32_t kAhead = 4;  // loads in flight before the first is waited for
  const uint32_t width = static_cast<uint32_t>(shape.x.channels / shape.groups);
  const uint32_t runs = static_cast<uint32_t>(Runs(shape.x));
  const uint32_t side_by_side = width < Threads::kCount ? width : Threads::kCount;
  const uint32_t step = Threads::kCount / side_by_side, first_run = threads.lane / side_by_side;
  const int64_t sample = threads.group / shape.groups, of_run = 2 * shape.x.channels;
  GroupSums sums = {0, 0};
  for (uint32_t c = threads.lane % side_by_side; c < width && first_run < step; c += side_by_side) {
    const int64_t channel = threads.group % shape.groups * width + c;
    const float* from = run_sums + (sample * runs + first_run) * of_run + channel;
    double first = 0, second = 0;
    uint32_t run = first_run;
    for (; run + (kAhead - 1) * step < runs; run += kAhead * step, from += kAhead * step * of_run) {
      float firsts[kAhead], seconds[kAhead];
      DPIPE_UNROLL for (uint32_t a = 0; a < kAhead; ++a) {
        firsts[a] = from[a * step * of_run];
        seconds[a] = from[a * step * of_run + shape.x.channels];
      }
      DPIPE_UNROLL for (uint32_t a = 0; a < kAhead; ++a) {
        first += firsts[a];
        second += seconds[a];
      }
    }
    for (; run < runs; run += step, from += step * of_run) {
      first += from[0];
      second += from[shape.x.channels];
    }
    sums.first += factor(channel) * first;
    sums.second += factor(channel) * second;
  }
  sums.first = threads.Sum(sums.first);
  sums.second = threads.Sum(sums.second);
  return sums;
}

// Launches kernel(std::bool_constant): true if a block processes a group.
template <typename KernelOf>
void LaunchForGroups(const Stream& stream, const GroupNormShape& shape, const KernelOf& kernel) {
  const int64_t groups = shape.x.batch * shape.groups;
  if (IsOfBlock(shape)) {
    Launch(stream, BlocksFor(groups * kThreads), kernel(std::true_type{}));
  } else {
    Launch(stream, BlocksFor(groups * kWarp), kernel(std::false_type{}));
  }
}

template <typename T, bool kOfBlock>
struct FinishMoments {
  GroupNormShape shape;
  const T* x;
  const float* run_sums;
  float* stats;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const GroupThreads<kOfBlock> threads;
    const int64_t group = threads.group;
    if (group >= shape.x.batch * shape.groups) return;
    const auto one = [](int64_t) { return 1.0; };
    const GroupSums sums = SumGroup(shape, run_sums, threads, one);
    if (threads.lane != 0) return;
    const double count = static_cast<double>(shape.x.positions) * (shape.x.channels / shape.groups);
    const double mean = sums.first / count;
    const double variance = sums.second / count - mean * mean;
    const float shift = Shift(shape, x, group / shape.groups, group % shape.groups);
    stats[2 * group] = static_cast<float>(mean + shift);
    stats[2 * group + 1] =
        static_cast<float>(1 / sqrt((variance > 0 ? variance : 0 * variance) + shape.eps));
  }
};

// Parameters of the normalisation of a pack of channels: z = (x - mean) slope + bias, with slope =
// rstd scale.
template <typename T>
struct NormChannels {
  float mean[kPack<T>], slope[kPack<T>], bias[kPack<T>];
};
template <typename T>
DPIPE_KERNEL_FUNCTION NormChannels<T> LoadChannels(const GroupNormShape& shape,
                                                   const ColumnWalk& walk, const float* stats,
                                                   const float* scale, const float* bias) {
  NormChannels<T> channels = {};
  if (walk.count == 0) return channels;
  LoadSpan(scale + walk.column, walk.count, channels.slope);
  LoadSpan(bias + walk.column, walk.count, channels.bias);
  const float* const of_sample = stats + 2 * walk.sample * shape.groups;
  ForChannels<T>(shape, walk, [&](int j, uint32_t group) {
    channels.mean[j] = of_sample[2 * group];
    channels.slope[j] *= of_sample[2 * group + 1];
  });
  return channels;
}

template <typename T, bool kSilu>
struct Normalise {
  GroupNormShape shape;
  const T* x;
  const float* scale;
  const float* bias;
  const float* stats;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape.x, WalkOrder::kBackwards);
    const T* const inputs[] = {x};
    Rows<T, 1> rows(walk, shape.x.channels, inputs);
    const NormChannels<T> c = LoadChannels<T>(shape, walk, stats, scale, bias);
    rows.ForEach([&](int, int64_t i, const Pack<T>(&packs)[1]) {
      Pack<T> values;
      DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
        const float z = fmaf(packs[0].v[j] - c.mean[j], c.slope[j], c.bias[j]);
        values.v[j] = kSilu ? SiluCurve<T>::Value(z) : z;
      }
      StorePack(y + i, walk.count, values);
    });
  }
};

// d = x - mean, and dz, the gradient with respect to z = d slope + bias.
struct Differential {
  float d, dz;
};
template <bool kSilu, typename T>
DPIPE_KERNEL_FUNCTION Differential DifferentialOf(const NormChannels<T>& c, int j, float x,
                                                  float dy) {
  Differential differential = {x - c.mean[j], dy};
  if (kSilu) {
    differential.dz *= SiluCurve<T>::Derivative(fmaf(differential.d, c.slope[j], c.bias[j]));
  }
  return differential;
}

// Terms dz and dz h, with h = (x - mean) rstd.
template <typename T, bool kSilu>
struct GradTerms {
  static constexpr int kTerms = 2, kInputs = 2;
  using Channels = NormChannels<T>;
  GroupNormShape shape;
  const T* inputs[kInputs];  // x, dy
  const float* scale;
  const float* bias;
  const float* stats;

  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk& walk) const {
    return LoadChannels<T>(shape, walk, stats, scale, bias);
  }
  DPIPE_KERNEL_FUNCTION void Add(const Channels& channels, int, const Pack<T> (&in)[kInputs],
                                 float (&sums)[kTerms][kPack<T>]) const {
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      const Differential of = DifferentialOf<kSilu>(channels, j, in[0].v[j], in[1].v[j]);
      sums[0][j] += of.dz;
      sums[1][j] = fmaf(of.dz, of.d, sums[1][j]);
    }
  }
  DPIPE_KERNEL_FUNCTION void Finish(const ColumnWalk& walk, float (&sums)[kTerms][kPack<T>]) const {
    const float* const of_sample = stats + 2 * walk.sample * shape.groups;
    ForChannels<T>(shape, walk,
                   [&](int j, uint32_t group) { sums[1][j] *= of_sample[2 * group + 1]; });
  }
};

// Means of dz scale and of dz scale h over each group.
template <bool kOfBlock>
struct GroupMeans {
  GroupNormShape shape;
  const float* run_sums;
  const float* scale;
  float* means;  // [batch, groups, 2]
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const GroupThreads<kOfBlock> threads;
    if (threads.group >= shape.x.batch * shape.groups) return;
    const auto factor = [this](int64_t channel) { return static_cast<double>(scale[channel]); };
    const GroupSums sums = SumGroup(shape, run_sums, threads, factor);
    if (threads.lane != 0) return;
    const double count = static_cast<double>(shape.x.positions) * (shape.x.channels / shape.groups);
    means[2 * threads.group] = static_cast<float>(sums.first / count);
    means[2 * threads.group + 1] = static_cast<float>(sums.second / count);
  }
};

// dx = rstd (dz scale - first - h second), where first and second are the group's means of dz scale
// and of dz scale h. This equals dz slope - (offset + (x - mean) tilt).
template <typename T, bool kSilu, bool kAdds>
struct ApplyGradient {
  static constexpr int kInputs = kAdds ? 3 : 2;
  static constexpr int kBlocksAtOnce = 3;
  GroupNormShape shape;
  const float* scale;
  const float* bias;
  const float* stats;
  const float* means;
  T* dx;
  const T* inputs[kInputs];  // x, dy and the addend
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape.x, WalkOrder::kBackwards);
    const NormChannels<T> c = LoadChannels<T>(shape, walk, stats, scale, bias);
    float offset[kPack<T>] = {}, tilt[kPack<T>] = {};
    ForChannels<T>(shape, walk, [&](int j, uint32_t of_sample) {
      const int64_t group = walk.sample * shape.groups + of_sample;
      const float rstd = stats[2 * group + 1];
      offset[j] = rstd * means[2 * group];
      tilt[j] = rstd * (rstd * means[2 * group + 1]);
    });
    // Not constructed earlier, to save registers.
    Rows<T, kInputs> rows(walk, shape.x.channels, inputs);
    rows.ForEach([&](int, int64_t i, const Pack<T>(&packs)[kInputs]) {
      Pack<T> gradient;
      DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
        const Differential of = DifferentialOf<kSilu>(c, j, packs[0].v[j], packs[1].v[j]);
        gradient.v[j] = fmaf(of.dz, c.slope[j], -fmaf(of.d, tilt[j], offset[j]));
      }
      if constexpr (kAdds) AddTo(&gradient, packs[2]);
      StorePack(dx + i, walk.count, gradient);
    });
  }
};

struct AddSamples {
  int64_t batch, channels, term_stride, channel_stride;
  const float* sums;
  float* dscale;
  float* dbias;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t c = ThreadOfAll();
    if (c >= channels) return;
    float bias = dbias[c], scale = dscale[c];
    for (int64_t b = 0; b < batch; ++b) {
      const float* const of_sample = sums + b * 2 * channels + c * channel_stride;
      bias += of_sample[0];
      scale += of_sample[term_stride];
    }
    dbias[c] = bias;
    dscale[c] = scale;
  }
};

int64_t MeansSize(const GroupNormShape& shape) { return shape.x.batch * shape.groups * 2; }

}  // namespace

int64_t GroupNormWorkspace(const GroupNormShape& shape) {
  return MeansSize(shape) + RunSumsSize(shape.x, 2);
}

template <typename T>
void GroupNormValues(const Stream& stream, const GroupNormShape& shape, const T* x,
                     const float* scale, const float* bias, float* workspace, float* stats, T* y) {
  LaunchSumRuns<T>(stream, Moments<T>{shape, {x}}, shape.x, workspace);
  LaunchForGroups(stream, shape, [&](auto of_block) {
    return FinishMoments<T, of_block.value>{shape, x, workspace, stats};
  });
  const auto normalise = [&](auto silu) {
    Launch(stream, WalkBlocks<T>(shape.x),
           Normalise<T, silu.value>{shape, x, scale, bias, stats, y});
  };
  shape.silu ? normalise(std::true_type{}) : normalise(std::false_type{});
}

template <typename T>
void GroupNormGradient(const Stream& stream, const GroupNormShape& shape, const T* x, const T* dy,
                       const float* stats, const float* scale, const float* bias, const T* addend,
                       float* workspace, float* sums, T* dx) {
  float* const means = workspace;
  float* const run_sums = workspace + MeansSize(shape);
  const auto differentiate = [&](auto silu) {
    LaunchSumRuns<T>(stream, GradTerms<T, silu.value>{shape, {x, dy}, scale, bias, stats}, shape.x,
                     run_sums);
    LaunchForGroups(stream, shape, [&](auto of_block) {
      return GroupMeans<of_block.value>{shape, run_sums, scale, means};
    });
    LaunchFinishSums<false>(stream, shape.x, 2, 1, 2, run_sums, sums);
    if (addend != nullptr) {
      Launch(stream, WalkBlocks<T>(shape.x),
             ApplyGradient<T, silu.value, true>{
                 shape, scale, bias, stats, means, dx, {x, dy, addend}});
    } else {
      Launch(stream, WalkBlocks<T>(shape.x),
             ApplyGradient<T, silu.value, false>{shape, scale, bias, stats, means, dx, {x, dy}});
    }
  };
  shape.silu ? differentiate(std::true_type{}) : differentiate(std::false_type{});
}

void AddNormWeightGrads(const Stream& stream, int64_t batch, int64_t channels, int64_t term_stride,
                        int64_t channel_stride, const float* sums, float* dscale, float* dbias) {
  Launch(stream, BlocksFor(channels),
         AddSamples{batch, channels, term_stride, channel_stride, sums, dscale, dbias});
}

#define DPIPE_INSTANTIATE(T)                                                                  \
  template void GroupNormValues(const Stream&, const GroupNormShape&, const T*, const float*, \
                                const float*, float*, float*, T*);                            \
  template void GroupNormGradient(const Stream&, const GroupNormShape&, const T*, const T*,   \
                                  const float*, const float*, const float*, const T*, float*, \
                                  float*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
