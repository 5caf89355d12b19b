#include "core/ops/cuda/channels.h"

#include "core/ops/cuda/channel_sums.h"
#include "core/ops/cuda/curves.h"

namespace dpipe::ops::cuda {
namespace {

template <typename T>
struct AddToAll {
  ChannelsLast shape;
  const T* x;
  const T* v;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape);
    if (walk.count == 0) return;
    const Pack<T> added = LoadPack(v + walk.sample * shape.channels + walk.column, walk.count);
    ForRows(walk, shape.channels, [&](int64_t i) {
      Pack<T> pack = LoadPack(x + i, walk.count);
      for (int j = 0; j < kPack<T>; ++j) pack.v[j] += added.v[j];
      StorePack(y + i, walk.count, pack.v);
    });
  }
};

template <typename T>
struct AddInPlace {
  ChannelsLast shape;
  const float* bias;
  const T* vector;
  const T* image;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape);
    if (walk.count == 0) return;
    Pack<T> everywhere = {};
    if (vector != nullptr) {
      everywhere = LoadPack(vector + walk.sample * shape.channels + walk.column, walk.count);
    }
    if (bias != nullptr) {
      for (int j = 0; j < walk.count; ++j) everywhere.v[j] += bias[walk.column + j];
    }
    ForRows(walk, shape.channels, [&](int64_t i) {
      Pack<T> pack = LoadPack(y + i, walk.count);
      for (int j = 0; j < kPack<T>; ++j) pack.v[j] += everywhere.v[j];
      if (image != nullptr) AddPack(image + i, walk.count, &pack);
      StorePack(y + i, walk.count, pack.v);
    });
  }
};

template <typename T>
struct Values {
  static constexpr int kTerms = 1;
  struct Channels {};
  const T* x;
  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk&) const { return {}; }
  DPIPE_KERNEL_FUNCTION void Add(const Channels&, const ColumnWalk& walk, int64_t i,
                                 float (&sums)[kTerms][kPack<T>]) const {
    const Pack<T> v = LoadPack(x + i, walk.count);
    for (int j = 0; j < kPack<T>; ++j) sums[0][j] += v.v[j];
  }
};

// 1 + v[b, c] and v[b, C + c] of a pack of channels.
template <typename T>
struct Modulation {
  Pack<T> scale, shift;
};
template <typename T>
DPIPE_KERNEL_FUNCTION Modulation<T> LoadModulation(const ChannelsLast& shape,
                                                   const ColumnWalk& walk, const T* v) {
  const T* const of_sample = v + walk.sample * 2 * shape.channels + walk.column;
  Modulation<T> m = {LoadPack(of_sample, walk.count),
                     LoadPack(of_sample + shape.channels, walk.count)};
  for (float& scale : m.scale.v) scale += 1.0f;
  return m;
}

// The gradient to h = x scale + shift.
template <typename T>
DPIPE_KERNEL_FUNCTION float GradToModulated(const Modulation<T>& m, bool silu, int j, float x,
                                            float dy) {
  return silu ? dy * SiluCurve::Derivative(x * m.scale.v[j] + m.shift.v[j]) : dy;
}

template <typename T>
struct Modulate {
  ChannelsLast shape;
  bool silu;
  const T* x;
  const T* v;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape);
    if (walk.count == 0) return;
    const Modulation<T> m = LoadModulation(shape, walk, v);
    ForRows(walk, shape.channels, [&](int64_t i) {
      Pack<T> pack = LoadPack(x + i, walk.count);
      for (int j = 0; j < kPack<T>; ++j) {
        const float h = pack.v[j] * m.scale.v[j] + m.shift.v[j];
        pack.v[j] = silu ? SiluCurve::Value(h) : h;
      }
      StorePack(y + i, walk.count, pack.v);
    });
  }
};

// dh x, the scale's gradient, and dh, the shift's.
template <typename T>
struct ModulateTerms {
  static constexpr int kTerms = 2;
  using Channels = Modulation<T>;
  ChannelsLast shape;
  bool silu;
  const T* x;
  const T* v;
  const T* dy;
  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk& walk) const {
    return LoadModulation(shape, walk, v);
  }
  DPIPE_KERNEL_FUNCTION void Add(const Channels& m, const ColumnWalk& walk, int64_t i,
                                 float (&sums)[kTerms][kPack<T>]) const {
    const Pack<T> vx = LoadPack(x + i, walk.count), vd = LoadPack(dy + i, walk.count);
    for (int j = 0; j < kPack<T>; ++j) {
      const float dh = GradToModulated(m, silu, j, vx.v[j], vd.v[j]);
      sums[0][j] += dh * vx.v[j];
      sums[1][j] += dh;
    }
  }
};

template <typename T>
struct ModulateInputs {
  ChannelsLast shape;
  bool silu;
  const T* x;
  const T* v;
  const T* dy;
  T* dx;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape);
    if (walk.count == 0) return;
    const Modulation<T> m = LoadModulation(shape, walk, v);
    ForRows(walk, shape.channels, [&](int64_t i) {
      Pack<T> vx = LoadPack(x + i, walk.count);
      const Pack<T> vd = LoadPack(dy + i, walk.count);
      for (int j = 0; j < kPack<T>; ++j) {
        vx.v[j] = GradToModulated(m, silu, j, vx.v[j], vd.v[j]) * m.scale.v[j];
      }
      StorePack(dx + i, walk.count, vx.v);
    });
  }
};

}  // namespace

template <typename T>
void AddVector(const Stream& stream, const ChannelsLast& shape, const T* x, const T* v, T* y) {
  Launch(stream, WalkBlocks<T>(shape), AddToAll<T>{shape, x, v, y});
}

template <typename T>
void AddTerms(const Stream& stream, const ChannelsLast& shape, const float* bias, const T* vector,
              const T* image, T* y) {
  Launch(stream, WalkBlocks<T>(shape), AddInPlace<T>{shape, bias, vector, image, y});
}

template <typename T>
void SumPositions(const Stream& stream, const ChannelsLast& shape, const T* x, float* run_sums,
                  T* sums) {
  LaunchSumRuns<T>(stream, Values<T>{x}, shape, run_sums);
  LaunchFinishSums<false>(stream, shape, 1, 0, 1, run_sums, sums);
}

template <typename T>
void AddRows(const Stream& stream, const ChannelsLast& shape, const T* x, float* run_sums,
             float* sums) {
  LaunchSumRuns<T>(stream, Values<T>{x}, shape, run_sums);
  LaunchFinishSums<true>(stream, shape, 1, 0, 1, run_sums, sums);
}

template <typename T>
void ModulateValues(const Stream& stream, const ChannelsLast& shape, bool silu, const T* x,
                    const T* v, T* y) {
  Launch(stream, WalkBlocks<T>(shape), Modulate<T>{shape, silu, x, v, y});
}

template <typename T>
void ModulateGradient(const Stream& stream, const ChannelsLast& shape, bool silu, const T* x,
                      const T* v, const T* dy, float* run_sums, T* dx, T* dv) {
  LaunchSumRuns<T>(stream, ModulateTerms<T>{shape, silu, x, v, dy}, shape, run_sums);
  LaunchFinishSums<false>(stream, shape, 2, shape.channels, 1, run_sums, dv);
  Launch(stream, WalkBlocks<T>(shape), ModulateInputs<T>{shape, silu, x, v, dy, dx});
}

#define DPIPE_INSTANTIATE(T)                                                                      \
  template void AddVector(const Stream&, const ChannelsLast&, const T*, const T*, T*);            \
  template void AddTerms(const Stream&, const ChannelsLast&, const float*, const T*, const T*,    \
                         T*);                                                                     \
  template void SumPositions(const Stream&, const ChannelsLast&, const T*, float*, T*);           \
  template void AddRows(const Stream&, const ChannelsLast&, const T*, float*, float*);            \
  template void ModulateValues(const Stream&, const ChannelsLast&, bool, const T*, const T*, T*); \
  template void ModulateGradient(const Stream&, const ChannelsLast&, bool, const T*, const T*,    \
                                 const T*, float*, T*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
