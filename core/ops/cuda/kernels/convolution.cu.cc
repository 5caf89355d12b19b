#include "core/ops/cuda/kernels/convolution.h"

#include "core/ops/cuda/kernels/pack.h"

namespace dpipe::ops::cuda {
namespace {

// Map element (r, s) of the window of output pixel (p, q) to its row and column in the image.
DPIPE_KERNEL_FUNCTION int64_t ImageRow(const WindowShape& w, int64_t p, int64_t r) {
  return p * w.stride + r - w.pad_top;
}
DPIPE_KERNEL_FUNCTION int64_t ImageColumn(const WindowShape& w, int64_t q, int64_t s) {
  return q * w.stride + s - w.pad_left;
}

// One thread per pack of channels of a window element.
template <typename T>
struct Gather {
  WindowShape w;
  const T* x;
  T* windows;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const int64_t elements = w.batch * w.out_height * w.out_width * w.rows * w.columns;
    const RowPlace at = PackOfRow<T>(elements, w.channels);
    if (at.count == 0) return;
    const uint32_t element = static_cast<uint32_t>(at.row);
    const uint32_t columns = static_cast<uint32_t>(w.columns);
    const uint32_t rows = static_cast<uint32_t>(w.rows);
    const uint32_t s = element % columns, r = element / columns % rows;
    const uint32_t pixel = element / columns / rows;
    const uint32_t out_width = static_cast<uint32_t>(w.out_width);
    const uint32_t out_height = static_cast<uint32_t>(w.out_height);
    const int64_t image = pixel / out_width / out_height;
    const int64_t row = ImageRow(w, pixel / out_width % out_height, r);
    const int64_t column = ImageColumn(w, pixel % out_width, s);
    Pack<T> pack = {};
    if (row >= 0 && row < w.height && column >= 0 && column < w.width) {
      const int64_t i = ((image * w.height + row) * w.width + column) * w.channels;
      pack = LoadPack(x + i + at.column, at.count);
    }
    StorePack(windows + at.row * w.channels + at.column, at.count, pack);
  }
};

// Returns the output row or column whose window has image position `at` at element `offset`, or -1
// if there is none.
DPIPE_KERNEL_FUNCTION int64_t OutputAt(int64_t at, int64_t offset, int64_t padding, int64_t stride,
                                       int64_t size) {
  const int64_t moved = at + padding - offset;
  if (moved < 0 || moved % stride != 0) return -1;
  return moved / stride < size ? moved / stride : -1;
}

// One thread per pack of channels of a pixel.
template <typename T>
struct Sum {
  WindowShape w;
  const float* windows;
  T* x;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const RowPlace at = PackOfRow<T>(w.batch * w.height * w.width, w.channels);
    if (at.count == 0) return;
    const uint32_t pixel = static_cast<uint32_t>(at.row);
    const uint32_t width = static_cast<uint32_t>(w.width), height = static_cast<uint32_t>(w.height);
    const int64_t image = pixel / width / height;
    Pack<T> sums = {};
    for (int64_t r = 0; r < w.rows; ++r) {
      const int64_t p = OutputAt(pixel / width % height, r, w.pad_top, w.stride, w.out_height);
      if (p < 0) continue;
      for (int64_t s = 0; s < w.columns; ++s) {
        const int64_t q = OutputAt(pixel % width, s, w.pad_left, w.stride, w.out_width);
        if (q < 0) continue;
        const int64_t window = (image * w.out_height + p) * w.out_width + q;
        const int64_t i = ((window * w.rows + r) * w.columns + s) * w.channels + at.column;
        Pack<T> added;
        LoadSpan(windows + i, at.count, added.v);
        AddTo(&sums, added);
      }
    }
    StorePack(x + at.row * w.channels + at.column, at.count, sums);
  }
};

// One thread per channel of an output. Adjacent threads together read a contiguous part of `from`.
template <typename T>
struct MoveChannels {
  uint32_t outputs, channels, elements;
  const float* from;
  T* to;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const uint32_t o = ThreadOfAll() / channels, c = ThreadOfAll() % channels;
    if (o >= outputs) return;
    for (uint32_t e = 0; e < elements; ++e) {
      Store(to + (o * elements + e) * channels + c, from[(o * channels + c) * elements + e]);
    }
  }
};

// One thread per four adjacent elements of `to`, so that enough loads are in flight. Adjacent
// threads read few cache lines of `from`.
template <typename T>
struct AddMoved {
  uint32_t channels, elements;
  int64_t size;
  const T* from;
  float* to;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForEachPack<float>(size, [this](int64_t i, int count) {
      Pack<float> sums = LoadPack(to + i, count);
      const uint32_t row = static_cast<uint32_t>(i) / elements;
      uint32_t e = static_cast<uint32_t>(i) % elements, o = row / channels, c = row % channels;
      Pack<float> added = {};
      DPIPE_UNROLL for (int j = 0; j < kPack<float>; ++j) {
        if (j < count) added.v[j] = Load(from + (o * elements + e) * channels + c);
        if (++e < elements) continue;
        e = 0;
        if (++c < channels) continue;
        c = 0;
        ++o;
      }
      AddTo(&sums, added);
      StorePack(to + i, count, sums);
    });
  }
};

void CheckFilters(int64_t outputs, int64_t channels, int64_t elements) {
  DPIPE_CHECK(outputs * channels * elements < int64_t{1} << 32)
      << "the filters have too many elements for 32-bit indices";
}

}  // namespace

template <typename T>
void GatherWindows(const Stream& stream, const WindowShape& shape, const T* x, T* windows) {
  const int64_t elements =
      shape.batch * shape.out_height * shape.out_width * shape.rows * shape.columns;
  Launch(stream, BlocksFor(elements * Packs<T>(shape.channels)), Gather<T>{shape, x, windows});
}

template <typename T>
void SumWindows(const Stream& stream, const WindowShape& shape, const float* windows, T* x) {
  const int64_t pixels = shape.batch * shape.height * shape.width;
  Launch(stream, BlocksFor(pixels * Packs<T>(shape.channels)), Sum<T>{shape, windows, x});
}

template <typename T>
void ChannelsToLast(const Stream& stream, int64_t outputs, int64_t channels, int64_t elements,
                    const float* from, T* to) {
  CheckFilters(outputs, channels, elements);
  Launch(stream, BlocksFor(outputs * channels),
         MoveChannels<T>{static_cast<uint32_t>(outputs), static_cast<uint32_t>(channels),
                         static_cast<uint32_t>(elements), from, to});
}

template <typename T>
void AddChannelsLast(const Stream& stream, int64_t outputs, int64_t channels, int64_t elements,
                     const T* from, float* to) {
  CheckFilters(outputs, channels, elements);
  const int64_t size = outputs * channels * elements;
  Launch(stream, BlocksFor(Packs<float>(size)),
         AddMoved<T>{static_cast<uint32_t>(channels), static_cast<uint32_t>(elements), size, from,
                     to});
}

#define DPIPE_INSTANTIATE(T)                                                                \
  template void GatherWindows(const Stream&, const WindowShape&, const T*, T*);             \
  template void SumWindows(const Stream&, const WindowShape&, const float*, T*);            \
  template void ChannelsToLast(const Stream&, int64_t, int64_t, int64_t, const float*, T*); \
  template void AddChannelsLast(const Stream&, int64_t, int64_t, int64_t, const T*, float*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
