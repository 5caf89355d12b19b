#include "core/ops/cuda/kernels/elementwise.h"

#include "core/ops/cuda/kernels/curves.h"
#include "core/ops/cuda/kernels/pack.h"

namespace dpipe::ops::cuda {
namespace {

// Functions of one element of x: y = f(x).
template <typename Curve>
struct CurveValue {
  DPIPE_KERNEL_FUNCTION float operator()(float x) const { return Curve::Value(x); }
};
struct Times {
  float factor;
  DPIPE_KERNEL_FUNCTION float operator()(float x) const { return factor * x; }
};

// Functions of one element of a and one of b: y = f(a, b).
template <typename Curve>
struct CurveGrad {
  DPIPE_KERNEL_FUNCTION float operator()(float x, float dy) const {
    return dy * Curve::Derivative(x);
  }
};
struct Plus {
  DPIPE_KERNEL_FUNCTION float operator()(float a, float b) const { return a + b; }
};
struct Product {
  DPIPE_KERNEL_FUNCTION float operator()(float a, float b) const { return a * b; }
};
struct PlusTimes {
  float factor;
  DPIPE_KERNEL_FUNCTION float operator()(float y, float x) const { return y + factor * x; }
};

template <typename T, typename F>
struct MapOne {
  F f;
  int64_t n;
  const T* x;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForEachPack<T>(n, [this](int64_t i, int count) {
      Pack<T> v = LoadPack(x + i, count);
      for (float& value : v.v) value = f(value);
      StorePack(y + i, count, v);
    });
  }
};

template <typename T, typename F>
struct MapTwo {
  F f;
  int64_t n;
  const T* a;
  const T* b;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForEachPack<T>(n, [this](int64_t i, int count) {
      Pack<T> va = LoadPack(a + i, count);
      const Pack<T> vb = LoadPack(b + i, count);
      for (int j = 0; j < kPack<T>; ++j) va.v[j] = f(va.v[j], vb.v[j]);
      StorePack(y + i, count, va);
    });
  }
};

// Elements per thread if there are two element types: a pack of the narrower type.
constexpr int kSpan = kPack<Bf16>;

template <typename From, typename To, typename F>
struct MapInto {
  F f;
  int64_t n;
  const From* from;
  To* to;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForEachPack<Bf16>(n, [this](int64_t i, int count) {
      float x[kSpan], y[kSpan];
      LoadSpan(from + i, count, x);
      LoadSpan(to + i, count, y);
      DPIPE_UNROLL for (int j = 0; j < kSpan; ++j) y[j] = f(y[j], x[j]);
      StoreSpan(to + i, count, y);
    });
  }
};

template <typename From, typename To>
struct Convert {
  int64_t n;
  const From* from;
  To* to;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForEachPack<Bf16>(n, [this](int64_t i, int count) {
      float x[kSpan];
      LoadSpan(from + i, count, x);
      StoreSpan(to + i, count, x);
    });
  }
};

template <typename T, typename F>
void Map(const Stream& stream, const F& f, int64_t n, const T* x, T* y) {
  Launch(stream, BlocksFor(Packs<T>(n)), MapOne<T, F>{f, n, x, y});
}
template <typename T, typename F>
void Map(const Stream& stream, const F& f, int64_t n, const T* a, const T* b, T* y) {
  Launch(stream, BlocksFor(Packs<T>(n)), MapTwo<T, F>{f, n, a, b, y});
}

template <typename T>
struct Geglu {
  int64_t rows, width;
  const T* x;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const RowPlace at = PackOfRow<T>(rows, width);
    if (at.count == 0) return;
    const int64_t i = at.row * 2 * width + at.column;
    Pack<T> value = LoadPack(x + i, at.count);
    const Pack<T> gate = LoadPack(x + i + width, at.count);
    for (int j = 0; j < kPack<T>; ++j) value.v[j] *= GeluCurve<T>::Value(gate.v[j]);
    StorePack(y + at.row * width + at.column, at.count, value);
  }
};

template <typename T>
struct GegluGrad {
  int64_t rows, width;
  const T* x;
  const T* dy;
  T* dx;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const RowPlace at = PackOfRow<T>(rows, width);
    if (at.count == 0) return;
    const int64_t i = at.row * 2 * width + at.column;
    const Pack<T> value = LoadPack(x + i, at.count);
    const Pack<T> gate = LoadPack(x + i + width, at.count);
    const Pack<T> d = LoadPack(dy + at.row * width + at.column, at.count);
    Pack<T> d_value, d_gate;
    for (int j = 0; j < kPack<T>; ++j) {
      d_value.v[j] = d.v[j] * GeluCurve<T>::Value(gate.v[j]);
      d_gate.v[j] = d.v[j] * value.v[j] * GeluCurve<T>::Derivative(gate.v[j]);
    }
    StorePack(dx + i, at.count, d_value);
    StorePack(dx + i + width, at.count, d_gate);
  }
};

// Numbers per thread: one pack of bf16, or two of fp32.
constexpr int kCodesPerThread = kPack<Bf16>;

template <typename T>
struct DecodeCodes {
  int64_t n, block;
  const int8_t* codes;
  const float* scales;
  T* to;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForEachPack<Bf16>(n, [this](int64_t i, int count) {
      const float scale = scales[i / block];
      uint64_t bits = 0;
      if (count == kCodesPerThread) {
        bits = *reinterpret_cast<const uint64_t*>(codes + i);
      } else {
        for (int j = 0; j < count; ++j) {
          bits |= uint64_t{static_cast<uint8_t>(codes[i + j])} << (8 * j);
        }
      }
      float x[kCodesPerThread];
      DPIPE_UNROLL for (int j = 0; j < kCodesPerThread; ++j) {
        x[j] = scale * static_cast<float>(static_cast<int8_t>(bits >> (8 * j) & 0xff));
      }
      StoreSpan(to + i, count, x);
    });
  }
};

}  // namespace

template <typename T>
void MapActivation(const Stream& stream, Activation activation, int64_t n, const T* x, T* y) {
  switch (activation) {
    case Activation::kSilu:
      return Map(stream, CurveValue<SiluCurve<T>>{}, n, x, y);
    case Activation::kGelu:
      return Map(stream, CurveValue<GeluCurve<T>>{}, n, x, y);
    case Activation::kGeluTanh:
      return Map(stream, CurveValue<GeluTanhCurve<T>>{}, n, x, y);
    case Activation::kQuickGelu:
      return Map(stream, CurveValue<QuickGeluCurve<T>>{}, n, x, y);
  }
}

template <typename T>
void MapActivationGrad(const Stream& stream, Activation activation, int64_t n, const T* x,
                       const T* dy, T* dx) {
  switch (activation) {
    case Activation::kSilu:
      return Map(stream, CurveGrad<SiluCurve<T>>{}, n, x, dy, dx);
    case Activation::kGelu:
      return Map(stream, CurveGrad<GeluCurve<T>>{}, n, x, dy, dx);
    case Activation::kGeluTanh:
      return Map(stream, CurveGrad<GeluTanhCurve<T>>{}, n, x, dy, dx);
    case Activation::kQuickGelu:
      return Map(stream, CurveGrad<QuickGeluCurve<T>>{}, n, x, dy, dx);
  }
}

template <typename T>
void MapGeglu(const Stream& stream, int64_t rows, int64_t width, const T* x, T* y) {
  Launch(stream, BlocksFor(rows * Packs<T>(width)), Geglu<T>{rows, width, x, y});
}

template <typename T>
void MapGegluGrad(const Stream& stream, int64_t rows, int64_t width, const T* x, const T* dy,
                  T* dx) {
  Launch(stream, BlocksFor(rows * Packs<T>(width)), GegluGrad<T>{rows, width, x, dy, dx});
}

template <typename T>
void MapAdd(const Stream& stream, int64_t n, const T* a, const T* b, T* y) {
  Map(stream, Plus{}, n, a, b, y);
}

template <typename T>
void MapMultiply(const Stream& stream, int64_t n, const T* a, const T* b, T* y) {
  Map(stream, Product{}, n, a, b, y);
}

template <typename T>
void MapScale(const Stream& stream, int64_t n, float factor, const T* x, T* y) {
  Map(stream, Times{factor}, n, x, y);
}

template <typename T, typename U>
void MapAxpy(const Stream& stream, int64_t n, float factor, const T* x, U* y) {
  Launch(stream, BlocksFor(Packs<Bf16>(n)), MapInto<T, U, PlusTimes>{{factor}, n, x, y});
}

template <typename From, typename To>
void MapConvert(const Stream& stream, int64_t n, const From* from, To* to) {
  Launch(stream, BlocksFor(Packs<Bf16>(n)), Convert<From, To>{n, from, to});
}

template <typename T>
void DecodeBlocks(const Stream& stream, int64_t n, int64_t block, const int8_t* codes,
                  const float* scales, T* to) {
  DPIPE_CHECK_EQ(block % kCodesPerThread, 0);
  Launch(stream, BlocksFor(Packs<Bf16>(n)), DecodeCodes<T>{n, block, codes, scales, to});
}

#define DPIPE_INSTANTIATE(T)                                                                   \
  template void MapActivation(const Stream&, Activation, int64_t, const T*, T*);               \
  template void MapActivationGrad(const Stream&, Activation, int64_t, const T*, const T*, T*); \
  template void MapGeglu(const Stream&, int64_t, int64_t, const T*, T*);                       \
  template void MapGegluGrad(const Stream&, int64_t, int64_t, const T*, const T*, T*);         \
  template void MapAdd(const Stream&, int64_t, const T*, const T*, T*);                        \
  template void MapMultiply(const Stream&, int64_t, const T*, const T*, T*);                   \
  template void MapScale(const Stream&, int64_t, float, const T*, T*);                         \
  template void MapAxpy(const Stream&, int64_t, float, const T*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)
template void MapAxpy(const Stream&, int64_t, float, const Bf16*, float*);
template void MapConvert(const Stream&, int64_t, const float*, Bf16*);
template void MapConvert(const Stream&, int64_t, const Bf16*, float*);
template void DecodeBlocks(const Stream&, int64_t, int64_t, const int8_t*, const float*, float*);
template void DecodeBlocks(const Stream&, int64_t, int64_t, const int8_t*, const float*, Bf16*);

}  // namespace dpipe::ops::cuda
