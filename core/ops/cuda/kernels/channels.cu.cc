#include <cmath>

#include "core/ops/cuda/kernels/channel_sums.h"
#include "core/ops/cuda/kernels/curves.h"
#include "core/ops/cuda/kernels/elementwise.h"

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
    const T* const inputs[] = {x};
    Rows<T, 1> rows(walk, shape.channels, inputs);
    const Pack<T> added = LoadPack(v + walk.sample * shape.channels + walk.column, walk.count);
    rows.ForEach([&](int, int64_t i, const Pack<T>(&packs)[1]) {
      Pack<T> sum = packs[0];
      AddTo(&sum, added);
      StorePack(y + i, walk.count, sum);
    });
  }
};

template <typename T, bool kAddsImage>
struct AddInPlace {
  static constexpr int kInputs = kAddsImage ? 2 : 1;
  ChannelsLast shape;
  const float* bias;
  const T* vector;
  T* y;
  const T* inputs[kInputs];  // y and the image
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape);
    if (walk.count == 0) return;
    Rows<T, kInputs> rows(walk, shape.channels, inputs);
    Pack<T> everywhere = {};
    if (vector != nullptr) {
      everywhere = LoadPack(vector + walk.sample * shape.channels + walk.column, walk.count);
    }
    if (bias != nullptr) {
      Pack<T> biases;
      LoadSpan(bias + walk.column, walk.count, biases.v);
      AddTo(&everywhere, biases);
    }
    rows.ForEach([&](int, int64_t i, const Pack<T>(&packs)[kInputs]) {
      Pack<T> sum = packs[0];
      AddTo(&sum, everywhere);
      if constexpr (kAddsImage) AddTo(&sum, packs[1]);
      StorePack(y + i, walk.count, sum);
    });
  }
};

template <typename T>
struct Values {
  static constexpr int kTerms = 1, kInputs = 1;
  struct Channels {};
  const T* inputs[kInputs];
  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk&) const { return {}; }
  DPIPE_KERNEL_FUNCTION void Add(const Channels&, int, const Pack<T> (&x)[kInputs],
                                 float (&sums)[kTerms][kPack<T>]) const {
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) sums[0][j] += x[0].v[j];
  }
  DPIPE_KERNEL_FUNCTION void Finish(const ColumnWalk&, float (&)[kTerms][kPack<T>]) const {}
};

// 1 + v[b, c] and v[b, C + c] for a pack of channels.
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
  DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) m.scale.v[j] += 1.0f;
  return m;
}

// Returns the gradient with respect to h = x scale + shift.
template <typename T>
DPIPE_KERNEL_FUNCTION Pack<T> GradToModulated(const Modulation<T>& m, bool silu, const Pack<T>& x,
                                              const Pack<T>& dy) {
  if (!silu) return dy;
  Pack<T> dh;
  DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
    dh.v[j] = dy.v[j] * SiluCurve<T>::Derivative(fmaf(x.v[j], m.scale.v[j], m.shift.v[j]));
  }
  return dh;
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
    const T* const inputs[] = {x};
    Rows<T, 1> rows(walk, shape.channels, inputs);
    const Modulation<T> m = LoadModulation(shape, walk, v);
    rows.ForEach([&](int, int64_t i, const Pack<T>(&packs)[1]) {
      Pack<T> values;
      DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
        values.v[j] = fmaf(packs[0].v[j], m.scale.v[j], m.shift.v[j]);
      }
      if (silu) {
        DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
          values.v[j] = SiluCurve<T>::Value(values.v[j]);
        }
      }
      StorePack(y + i, walk.count, values);
    });
  }
};

// Terms dh x, the gradient of scale, and dh, the gradient of shift.
template <typename T>
struct ModulateTerms {
  static constexpr int kTerms = 2, kInputs = 2;
  using Channels = Modulation<T>;
  ChannelsLast shape;
  bool silu;
  const T* v;
  const T* inputs[kInputs];  // x, dy
  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk& walk) const {
    return LoadModulation(shape, walk, v);
  }
  DPIPE_KERNEL_FUNCTION void Add(const Channels& m, int, const Pack<T> (&in)[kInputs],
                                 float (&sums)[kTerms][kPack<T>]) const {
    const Pack<T> dh = GradToModulated(m, silu, in[0], in[1]);
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      sums[0][j] = fmaf(dh.v[j], in[0].v[j], sums[0][j]);
      sums[1][j] += dh.v[j];
    }
  }
  DPIPE_KERNEL_FUNCTION void Finish(const ColumnWalk&, float (&)[kTerms][kPack<T>]) const {}
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
    const T* const inputs[] = {x, dy};
    Rows<T, 2> rows(walk, shape.channels, inputs);
    const Modulation<T> m = LoadModulation(shape, walk, v);
    rows.ForEach([&](int, int64_t i, const Pack<T>(&packs)[2]) {
      Pack<T> gradient = GradToModulated(m, silu, packs[0], packs[1]);
      DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) gradient.v[j] *= m.scale.v[j];
      StorePack(dx + i, walk.count, gradient);
    });
  }
};

// Loads the gates of a thread's pack of channels.
template <typename T>
DPIPE_KERNEL_FUNCTION Pack<T> LoadGates(const ChannelsLast& shape, const ColumnWalk& walk,
                                        const T* gate) {
  return LoadPack(gate + walk.sample * shape.channels + walk.column, walk.count);
}

template <typename T>
struct GatedSum {
  ChannelsLast shape;
  const T* gate;
  T* y;
  const T* inputs[2];  // x, h
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape);
    if (walk.count == 0) return;
    Rows<T, 2> rows(walk, shape.channels, inputs);
    const Pack<T> gates = LoadGates(shape, walk, gate);
    rows.ForEach([&](int, int64_t i, const Pack<T>(&packs)[2]) {
      Pack<T> sum;
      DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
        sum.v[j] = fmaf(gates.v[j], packs[1].v[j], packs[0].v[j]);
      }
      StorePack(y + i, walk.count, sum);
    });
  }
};

// The term dy h of the gates' gradient.
template <typename T>
struct GateTerms {
  static constexpr int kTerms = 1, kInputs = 2;
  struct Channels {};
  const T* inputs[kInputs];  // h, dy
  DPIPE_KERNEL_FUNCTION Channels Prepare(const ColumnWalk&) const { return {}; }
  DPIPE_KERNEL_FUNCTION void Add(const Channels&, int, const Pack<T> (&in)[kInputs],
                                 float (&sums)[kTerms][kPack<T>]) const {
    DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
      sums[0][j] = fmaf(in[1].v[j], in[0].v[j], sums[0][j]);
    }
  }
  DPIPE_KERNEL_FUNCTION void Finish(const ColumnWalk&, float (&)[kTerms][kPack<T>]) const {}
};

template <typename T>
struct GatedInputs {
  ChannelsLast shape;
  const T* gate;
  const T* dy;
  T* dh;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ColumnWalk walk = WalkOf<T>(shape);
    if (walk.count == 0) return;
    const T* const inputs[] = {dy};
    Rows<T, 1> rows(walk, shape.channels, inputs);
    const Pack<T> gates = LoadGates(shape, walk, gate);
    rows.ForEach([&](int, int64_t i, const Pack<T>(&packs)[1]) {
      Pack<T> gradient = packs[0];
      DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) gradient.v[j] *= gates.v[j];
      StorePack(dh + i, walk.count, gradient);
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
  if (image != nullptr) {
    Launch(stream, WalkBlocks<T>(shape), AddInPlace<T, true>{shape, bias, vector, y, {y, image}});
  } else {
    Launch(stream, WalkBlocks<T>(shape), AddInPlace<T, false>{shape, bias, vector, y, {y}});
  }
}

template <typename T>
void SumPositions(const Stream& stream, const ChannelsLast& shape, const T* x, float* run_sums,
                  T* sums) {
  LaunchSumRuns<T>(stream, Values<T>{{x}}, shape, run_sums);
  LaunchFinishSums<false>(stream, shape, 1, 0, 1, run_sums, sums);
}

template <typename T>
void AddRows(const Stream& stream, const ChannelsLast& shape, const T* x, float* run_sums,
             float* sums) {
  LaunchSumRuns<T>(stream, Values<T>{{x}}, shape, run_sums);
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
  LaunchSumRuns<T>(stream, ModulateTerms<T>{shape, silu, v, {x, dy}}, shape, run_sums);
  LaunchFinishSums<false>(stream, shape, 2, shape.channels, 1, run_sums, dv);
  Launch(stream, WalkBlocks<T>(shape), ModulateInputs<T>{shape, silu, x, v, dy, dx});
}

template <typename T>
void AddGated(const Stream& stream, const ChannelsLast& shape, const T* x, const T* gate,
              const T* h, T* y) {
  Launch(stream, WalkBlocks<T>(shape), GatedSum<T>{shape, gate, y, {x, h}});
}

template <typename T>
void AddGatedGradient(const Stream& stream, const ChannelsLast& shape, const T* gate, const T* h,
                      const T* dy, float* run_sums, T* dgate, T* dh) {
  LaunchSumRuns<T>(stream, GateTerms<T>{{h, dy}}, shape, run_sums);
  LaunchFinishSums<false>(stream, shape, 1, 0, 1, run_sums, dgate);
  Launch(stream, WalkBlocks<T>(shape), GatedInputs<T>{shape, gate, dy, dh});
}

#define DPIPE_INSTANTIATE(T)                                                                       \
  template void AddVector(const Stream&, const ChannelsLast&, const T*, const T*, T*);             \
  template void AddTerms(const Stream&, const ChannelsLast&, const float*, const T*, const T*,     \
                         T*);                                                                      \
  template void SumPositions(const Stream&, const ChannelsLast&, const T*, float*, T*);            \
  template void AddRows(const Stream&, const ChannelsLast&, const T*, float*, float*);             \
  template void ModulateValues(const Stream&, const ChannelsLast&, bool, const T*, const T*, T*);  \
  template void ModulateGradient(const Stream&, const ChannelsLast&, bool, const T*, const T*,     \
                                 const T*, float*, T*, T*);                                        \
  template void AddGated(const Stream&, const ChannelsLast&, const T*, const T*, const T*, T*);    \
  template void AddGatedGradient(const Stream&, const ChannelsLast&, const T*, const T*, const T*, \
                                 float*, T*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
