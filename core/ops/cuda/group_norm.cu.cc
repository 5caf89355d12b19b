#include "core/ops/cuda/group_norm.h"

#include "core/ops/cuda/channel_sums.h"
#include "core/ops/cuda/curves.h"
#include "core/ops/cuda/reduce.h"

namespace dpipe::ops::cuda {
namespace {

// The group of channel c.
DPIPE_KERNEL_FUNCTION int64_t GroupOf(const GroupNormShape& shape, int64_t channel) {
  return channel / (shape.x.channels / shape.groups);
}

// What x is moved by before it is summed.
template <typename T>
DPIPE_KERNEL_FUNCTION float Shift(const GroupNormShape& shape, const T* x, int64_t sample,
                                  int64_t group) {
  const int64_t width = shape.x.channels / shape.groups;
  return Load(x + sample * shape.x.positions * shape.x.channels + group * width);
}

template <typename T>
struct Moments {
  static constexpr int kTerms = 2;
  struct Channels {
    float shift[kPack<T>];
  };
  GroupNormShape shape;
  const T* x;

  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk& walk) const {
    Channels channels = {};
    for (int j = 0; j < walk.count; ++j) {
      channels.shift[j] = Shift(shape, x, walk.sample, GroupOf(shape, walk.column + j));
    }
    return channels;
  }
  DPIPE_KERNEL_FUNCTION void Add(const Channels& channels, const ColumnWalk& walk, int64_t i,
                                 float (&sums)[kTerms][kPack<T>]) const {
    const Pack<T> v = LoadPack(x + i, walk.count);
    for (int j = 0; j < kPack<T>; ++j) {
      const float d = v.v[j] - channels.shift[j];
      sums[0][j] += d;
      sums[1][j] += d * d;
    }
  }
};

// Sums over a group of what SumRuns left, by a warp.
struct GroupSums {
  double first, second;
};
template <typename Factor>
DPIPE_KERNEL_FUNCTION GroupSums SumGroup(const GroupNormShape& shape, const float* run_sums,
                                         int64_t sample, int64_t group, const Factor& factor) {
  const int64_t width = shape.x.channels / shape.groups;
  GroupSums sums = {0, 0};
  for (int64_t i = Thread() % kWarp; i < width * Runs(shape.x); i += kWarp) {
    const int64_t channel = group * width + i % width;
    const int64_t row = (sample * Runs(shape.x) + i / width) * 2;
    sums.first += factor(channel) * run_sums[row * shape.x.channels + channel];
    sums.second += factor(channel) * run_sums[(row + 1) * shape.x.channels + channel];
  }
  sums.first = WarpSum(sums.first);
  sums.second = WarpSum(sums.second);
  return sums;
}

// A warp a group.
template <typename T>
struct FinishMoments {
  GroupNormShape shape;
  const T* x;
  const float* run_sums;
  float* stats;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t warp = ThreadOfAll() / kWarp;
    if (warp >= shape.x.batch * shape.groups) return;
    const int64_t sample = warp / shape.groups, group = warp % shape.groups;
    const auto one = [](int64_t) { return 1.0; };
    const GroupSums sums = SumGroup(shape, run_sums, sample, group, one);
    if (Thread() % kWarp != 0) return;
    const double count = static_cast<double>(shape.x.positions) * (shape.x.channels / shape.groups);
    const double mean = sums.first / count;
    const double variance = sums.second / count - mean * mean;
    stats[2 * warp] = static_cast<float>(mean + Shift(shape, x, sample, group));
    stats[2 * warp + 1] =
        static_cast<float>(1 / sqrt((variance > 0 ? variance : 0 * variance) + shape.eps));
  }
};

// What a pack of channels is normalised with.
template <typename T>
struct NormChannels {
  float mean[kPack<T>], rstd[kPack<T>], scale[kPack<T>], bias[kPack<T>];
};
template <typename T>
DPIPE_KERNEL_FUNCTION NormChannels<T> LoadChannels(const GroupNormShape& shape,
                                                   const ColumnWalk& walk, const float* stats,
                                                   const float* scale, const float* bias) {
  NormChannels<T> channels = {};
  for (int j = 0; j < walk.count; ++j) {
    const int64_t c = walk.column + j;
    const float* of_group = stats + 2 * (walk.sample * shape.groups + GroupOf(shape, c));
    channels.mean[j] = of_group[0];
    channels.rstd[j] = of_group[1];
    channels.scale[j] = scale[c];
    channels.bias[j] = bias[c];
  }
  return channels;
}

template <typename T>
struct Normalise {
  GroupNormShape shape;
  const T* x;
  const float* scale;
  const float* bias;
  const float* stats;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape.x);
    const NormChannels<T> c = LoadChannels<T>(shape, walk, stats, scale, bias);
    ForRows(walk, shape.x.channels, [&](int64_t i) {
      Pack<T> v = LoadPack(x + i, walk.count);
      for (int j = 0; j < kPack<T>; ++j) {
        const float z = (v.v[j] - c.mean[j]) * c.rstd[j] * c.scale[j] + c.bias[j];
        v.v[j] = shape.silu ? SiluCurve::Value(z) : z;
      }
      StorePack(y + i, walk.count, v.v);
    });
  }
};

// h = (x - mean) rstd, and the gradient dz to z = h scale + bias.
struct Differential {
  float h, dz;
};
template <typename T>
DPIPE_KERNEL_FUNCTION Differential DifferentialOf(const NormChannels<T>& c, bool silu, int j,
                                                  float x, float dy) {
  Differential d = {(x - c.mean[j]) * c.rstd[j], dy};
  if (silu) d.dz = dy * SiluCurve::Derivative(d.h * c.scale[j] + c.bias[j]);
  return d;
}

// dz and dz h.
template <typename T>
struct GradTerms {
  static constexpr int kTerms = 2;
  using Channels = NormChannels<T>;
  GroupNormShape shape;
  const T* x;
  const T* dy;
  const float* scale;
  const float* bias;
  const float* stats;

  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk& walk) const {
    return LoadChannels<T>(shape, walk, stats, scale, bias);
  }
  DPIPE_KERNEL_FUNCTION void Add(const Channels& channels, const ColumnWalk& walk, int64_t i,
                                 float (&sums)[kTerms][kPack<T>]) const {
    const Pack<T> vx = LoadPack(x + i, walk.count), vd = LoadPack(dy + i, walk.count);
    for (int j = 0; j < kPack<T>; ++j) {
      const Differential d = DifferentialOf(channels, shape.silu, j, vx.v[j], vd.v[j]);
      sums[0][j] += d.dz;
      sums[1][j] += d.dz * d.h;
    }
  }
};

// The means of dz scale and of dz scale h over each group: a warp a group.
struct GroupMeans {
  GroupNormShape shape;
  const float* run_sums;
  const float* scale;
  float* means;  // [batch, groups, 2]
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t warp = ThreadOfAll() / kWarp;
    if (warp >= shape.x.batch * shape.groups) return;
    const auto factor = [this](int64_t channel) { return static_cast<double>(scale[channel]); };
    const GroupSums sums =
        SumGroup(shape, run_sums, warp / shape.groups, warp % shape.groups, factor);
    if (Thread() % kWarp != 0) return;
    const double count = static_cast<double>(shape.x.positions) * (shape.x.channels / shape.groups);
    means[2 * warp] = static_cast<float>(sums.first / count);
    means[2 * warp + 1] = static_cast<float>(sums.second / count);
  }
};

// dx = rstd (dz scale - mean of (dz scale) - h mean of (dz scale h)).
template <typename T>
struct ApplyGradient {
  GroupNormShape shape;
  const T* x;
  const T* dy;
  const float* scale;
  const float* bias;
  const float* stats;
  const float* means;
  const T* addend;
  T* dx;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape.x);
    const NormChannels<T> c = LoadChannels<T>(shape, walk, stats, scale, bias);
    float first[kPack<T>] = {}, second[kPack<T>] = {};
    for (int j = 0; j < walk.count; ++j) {
      const int64_t group = walk.sample * shape.groups + GroupOf(shape, walk.column + j);
      first[j] = means[2 * group];
      second[j] = means[2 * group + 1];
    }
    ForRows(walk, shape.x.channels, [&](int64_t i) {
      Pack<T> vx = LoadPack(x + i, walk.count);
      const Pack<T> vd = LoadPack(dy + i, walk.count);
      for (int j = 0; j < kPack<T>; ++j) {
        const Differential d = DifferentialOf(c, shape.silu, j, vx.v[j], vd.v[j]);
        vx.v[j] = c.rstd[j] * (d.dz * c.scale[j] - first[j] - d.h * second[j]);
      }
      if (addend != nullptr) AddPack(addend + i, walk.count, &vx);
      StorePack(dx + i, walk.count, vx.v);
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
  LaunchSumRuns<T>(stream, Moments<T>{shape, x}, shape.x, workspace);
  Launch(stream, BlocksFor(shape.x.batch * shape.groups * kWarp),
         FinishMoments<T>{shape, x, workspace, stats});
  Launch(stream, WalkBlocks<T>(shape.x), Normalise<T>{shape, x, scale, bias, stats, y});
}

template <typename T>
void GroupNormGradient(const Stream& stream, const GroupNormShape& shape, const T* x, const T* dy,
                       const float* stats, const float* scale, const float* bias, const T* addend,
                       float* workspace, float* sums, T* dx) {
  float* const means = workspace;
  float* const run_sums = workspace + MeansSize(shape);
  LaunchSumRuns<T>(stream, GradTerms<T>{shape, x, dy, scale, bias, stats}, shape.x, run_sums);
  Launch(stream, BlocksFor(shape.x.batch * shape.groups * kWarp),
         GroupMeans{shape, run_sums, scale, means});
  LaunchFinishSums<false>(stream, shape.x, 2, 1, 2, run_sums, sums);
  Launch(stream, WalkBlocks<T>(shape.x),
         ApplyGradient<T>{shape, x, dy, scale, bias, stats, means, addend, dx});
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
