#include "core/ops/cuda/kernels/images.h"

#include <cmath>

#include "core/ops/cuda/kernels/pack.h"

namespace dpipe::ops::cuda {
namespace {

DPIPE_KERNEL_FUNCTION int64_t Pixels(const ImageShape& shape) {
  return shape.batch * shape.height * shape.width;
}

struct Pixel {
  int64_t image, row, column;
};
DPIPE_KERNEL_FUNCTION Pixel PixelAt(const ImageShape& shape, int64_t index) {
  const uint32_t width = static_cast<uint32_t>(shape.width);
  const uint32_t height = static_cast<uint32_t>(shape.height);
  const uint32_t i = static_cast<uint32_t>(index);
  return {i / width / height, i / width % height, i % width};
}
// Returns the index of a pixel's first channel.
DPIPE_KERNEL_FUNCTION int64_t IndexOf(const ImageShape& shape, int64_t image, int64_t row,
                                      int64_t column) {
  return ((image * shape.height + row) * shape.width + column) * shape.channels;
}

DPIPE_KERNEL_FUNCTION ImageShape Doubled(const ImageShape& small) {
  return {small.batch, 2 * small.height, 2 * small.width, small.channels};
}

// If this thread has a pack, calls `body` with its position in the rows of channels and with its
// pixel.
template <typename T, typename Body>
DPIPE_KERNEL_FUNCTION void ForPack(const ImageShape& shape, const Body& body) {
  const RowPlace at = PackOfRow<T>(Pixels(shape), shape.channels);
  if (at.count > 0) body(at, PixelAt(shape, at.row));
}

template <typename T>
struct Repeat {
  ImageShape small;
  float factor;
  const T* x;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForPack<T>(small, [&](const RowPlace& at, const Pixel& p) {
      Pack<T> pack = LoadPack(x + at.row * small.channels + at.column, at.count);
      for (float& value : pack.v) value *= factor;
      for (int corner = 0; corner < 4; ++corner) {
        const int64_t i =
            IndexOf(Doubled(small), p.image, 2 * p.row + corner / 2, 2 * p.column + corner % 2);
        StorePack(y + i + at.column, at.count, pack);
      }
    });
  }
};

template <typename T>
struct SumSquare {
  ImageShape small;
  float factor;
  const T* x;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForPack<T>(small, [&](const RowPlace& at, const Pixel& p) {
      Pack<T> sums = {};
      for (int corner = 0; corner < 4; ++corner) {
        const int64_t i =
            IndexOf(Doubled(small), p.image, 2 * p.row + corner / 2, 2 * p.column + corner % 2);
        const Pack<T> pack = LoadPack(x + i + at.column, at.count);
        for (int j = 0; j < kPack<T>; ++j) sums.v[j] += pack.v[j];
      }
      for (float& sum : sums.v) sum *= factor;
      StorePack(y + at.row * small.channels + at.column, at.count, sums);
    });
  }
};

// The position of a target pixel between two source pixels.
struct Between {
  int64_t low, high;
  float share;  // weight of `high`
};
DPIPE_KERNEL_FUNCTION Between PlaceOf(int64_t i, int64_t from, int64_t to) {
  const double centre = (i + 0.5) * static_cast<double>(from) / to - 0.5;
  const double place = centre > 0 ? centre : 0;
  Between b;
  b.low = static_cast<int64_t>(place);
  if (b.low > from - 1) b.low = from - 1;
  b.high = b.low + 1 < from ? b.low + 1 : from - 1;
  const double share = place - static_cast<double>(b.low);
  b.share = static_cast<float>(share < 1 ? share : 1);
  return b;
}

template <typename T>
struct Resize {
  ImageShape from, to;
  const T* x;
  T* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForPack<T>(to, [&](const RowPlace& at, const Pixel& p) {
      const Between r = PlaceOf(p.row, from.height, to.height);
      const Between q = PlaceOf(p.column, from.width, to.width);
      const auto load = [&](int64_t row, int64_t column) {
        return LoadPack(x + IndexOf(from, p.image, row, column) + at.column, at.count);
      };
      Pack<T> upper = load(r.low, q.low), lower = load(r.high, q.low);
      const Pack<T> upper_right = load(r.low, q.high), lower_right = load(r.high, q.high);
      for (int j = 0; j < kPack<T>; ++j) {
        const float top = (1 - q.share) * upper.v[j] + q.share * upper_right.v[j];
        const float bottom = (1 - q.share) * lower.v[j] + q.share * lower_right.v[j];
        upper.v[j] = (1 - r.share) * top + r.share * bottom;
      }
      StorePack(y + at.row * to.channels + at.column, at.count, upper);
    });
  }
};

// Returns the weight of source pixel `source` in target pixel i.
DPIPE_KERNEL_FUNCTION float WeightIn(int64_t i, int64_t source, int64_t from, int64_t to) {
  const Between b = PlaceOf(i, from, to);
  return (b.low == source ? 1 - b.share : 0.0f) + (b.high == source ? b.share : 0.0f);
}

// Target pixels [begin, end) include all in which `source` has a weight: those whose centres are
// within one source pixel of its centre, plus one at either end against rounding errors.
struct TargetRange {
  int64_t begin, end;
};
DPIPE_KERNEL_FUNCTION TargetRange TargetsOf(int64_t source, int64_t from, int64_t to) {
  const double scale = static_cast<double>(to) / from;
  const auto begin = static_cast<int64_t>(floor((source - 0.5) * scale - 0.5)) - 1;
  const auto end = static_cast<int64_t>(ceil((source + 1.5) * scale - 0.5)) + 2;
  return {begin > 0 ? begin : 0, end < to ? end : to};
}

template <typename T>
struct ResizeGrad {
  ImageShape from, to;
  const T* dy;
  T* dx;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    ForPack<T>(from, [&](const RowPlace& at, const Pixel& p) {
      const TargetRange rows = TargetsOf(p.row, from.height, to.height);
      const TargetRange columns = TargetsOf(p.column, from.width, to.width);
      Pack<T> sums = {};
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        const float of_row = WeightIn(r, p.row, from.height, to.height);
        if (of_row == 0) continue;
        for (int64_t q = columns.begin; q < columns.end; ++q) {
          const float weight = of_row * WeightIn(q, p.column, from.width, to.width);
          if (weight == 0) continue;
          const Pack<T> d = LoadPack(dy + IndexOf(to, p.image, r, q) + at.column, at.count);
          for (int j = 0; j < kPack<T>; ++j) sums.v[j] += weight * d.v[j];
        }
      }
      StorePack(dx + at.row * from.channels + at.column, at.count, sums);
    });
  }
};

template <typename T>
struct Columns {
  int64_t rows, width;
  const T* from;
  int64_t from_stride;
  T* to;
  int64_t to_stride;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const RowPlace at = PackOfRow<T>(rows, width);
    if (at.count == 0) return;
    const Pack<T> pack = LoadPack(from + at.row * from_stride + at.column, at.count);
    StorePack(to + at.row * to_stride + at.column, at.count, pack);
  }
};

template <typename T>
struct PaddedColumns {
  int64_t rows, width;
  const T* from;
  int64_t begin, channels;
  const T* added;
  T* to;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const RowPlace at = PackOfRow<T>(rows, channels);
    if (at.count == 0) return;
    const int64_t i = at.row * channels + at.column;
    Pack<T> pack = {};
    if (added != nullptr) pack = LoadPack(added + i, at.count);
    const int64_t first = at.column - begin;  // of the pack, in `from`
    if (first >= 0 && first + at.count <= width) {
      AddTo(&pack, LoadPack(from + at.row * width + first, at.count));
    } else {
      DPIPE_UNROLL for (int j = 0; j < kPack<T>; ++j) {
        if (first + j < 0 || first + j >= width || j >= at.count) continue;
        pack.v[j] += Load(from + at.row * width + first + j);
      }
    }
    StorePack(to + i, at.count, pack);
  }
};

// One thread per element: latents are small.
template <typename T, bool kCut>
struct MovePatches {
  PatchShape shape;
  const T* from;
  T* to;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const ImageShape& image = shape.image;
    const int64_t i = ThreadOfAll();
    if (i >= Pixels(image) * image.channels) return;
    const Pixel p = PixelAt(image, i / image.channels);
    const int64_t c = i % image.channels, size = shape.size, in_row = p.row % size;
    const int64_t in_patch = in_row * size + p.column % size;
    const int64_t columns = image.width / size, rows = image.height / size;
    const int64_t patch = (p.image * rows + p.row / size) * columns + p.column / size;
    const int64_t at =
        shape.channel_first ? c * size * size + in_patch : in_patch * image.channels + c;
    const int64_t j = patch * image.channels * size * size + at;
    Store(to + (kCut ? j : i), Load(from + (kCut ? i : j)));
  }
};

template <typename T>
uint32_t BlocksOf(const ImageShape& shape) {
  return BlocksFor(Pixels(shape) * Packs<T>(shape.channels));
}

}  // namespace

template <typename T>
void RepeatSquares(const Stream& stream, const ImageShape& small, float factor, const T* x, T* y) {
  Launch(stream, BlocksOf<T>(small), Repeat<T>{small, factor, x, y});
}

template <typename T>
void SumSquares(const Stream& stream, const ImageShape& small, float factor, const T* x, T* y) {
  Launch(stream, BlocksOf<T>(small), SumSquare<T>{small, factor, x, y});
}

template <typename T>
void ResizeImage(const Stream& stream, const ImageShape& from, const ImageShape& to, const T* x,
                 T* y) {
  Launch(stream, BlocksOf<T>(to), Resize<T>{from, to, x, y});
}

template <typename T>
void ResizeImageGrad(const Stream& stream, const ImageShape& from, const ImageShape& to,
                     const T* dy, T* dx) {
  Launch(stream, BlocksOf<T>(from), ResizeGrad<T>{from, to, dy, dx});
}

template <typename T>
void CopyColumns(const Stream& stream, int64_t rows, int64_t width, const T* from,
                 int64_t from_stride, T* to, int64_t to_stride) {
  Launch(stream, BlocksFor(rows * Packs<T>(width)),
         Columns<T>{rows, width, from, from_stride, to, to_stride});
}

template <typename T>
void PadColumns(const Stream& stream, int64_t rows, int64_t width, const T* from, int64_t begin,
                int64_t channels, const T* added, T* to) {
  Launch(stream, BlocksFor(rows * Packs<T>(channels)),
         PaddedColumns<T>{rows, width, from, begin, channels, added, to});
}

template <typename T>
void CutPatches(const Stream& stream, const PatchShape& shape, const T* image, T* patches) {
  Launch(stream, BlocksFor(Pixels(shape.image) * shape.image.channels),
         MovePatches<T, true>{shape, image, patches});
}

template <typename T>
void JoinPatches(const Stream& stream, const PatchShape& shape, const T* patches, T* image) {
  Launch(stream, BlocksFor(Pixels(shape.image) * shape.image.channels),
         MovePatches<T, false>{shape, patches, image});
}

#define DPIPE_INSTANTIATE(T)                                                                      \
  template void RepeatSquares(const Stream&, const ImageShape&, float, const T*, T*);             \
  template void SumSquares(const Stream&, const ImageShape&, float, const T*, T*);                \
  template void ResizeImage(const Stream&, const ImageShape&, const ImageShape&, const T*, T*);   \
  template void ResizeImageGrad(const Stream&, const ImageShape&, const ImageShape&, const T*,    \
                                T*);                                                              \
  template void CopyColumns(const Stream&, int64_t, int64_t, const T*, int64_t, T*, int64_t);     \
  template void PadColumns(const Stream&, int64_t, int64_t, const T*, int64_t, int64_t, const T*, \
                           T*);                                                                   \
  template void CutPatches(const Stream&, const PatchShape&, const T*, T*);                       \
  template void JoinPatches(const Stream&, const PatchShape&, const T*, T*);
DPIPE_INSTANTIATE(float)
DPIPE_INSTANTIATE(Bf16)

}  // namespace dpipe::ops::cuda
