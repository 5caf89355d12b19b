#include "core/ops/image/rearrange.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "core/ops/cuda/kernels/images.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/parallel.h"
#include "core/ops/support/vector_clones.h"

namespace dpipe::ops {
namespace {

// Copies columns of rows: `width_bytes` from each row of `from` to each row of `to`; the strides
// are the distances between rows. It only moves bytes, so a separate reference would be the same.
void CopyColumns(const Device& device, const char* from, int64_t from_stride, char* to,
                 int64_t to_stride, int64_t width_bytes, int64_t rows) {
  constexpr int64_t kRowsPerPiece = 256;
  ParallelFor(device, (rows + kRowsPerPiece - 1) / kRowsPerPiece, [&](int64_t piece) {
    const int64_t end = std::min(rows, (piece + 1) * kRowsPerPiece);
    for (int64_t row = piece * kRowsPerPiece; row < end; ++row) {
      std::memcpy(to + row * to_stride, from + row * from_stride, width_bytes);
    }
  });
}

// Writes rows of `channels` elements: `from` at element `begin`, zeros elsewhere, plus `added`
// unless null. A row may be a whole image, so pieces are runs of a row.
template <typename T>
void PadRows(const Device& device, int64_t rows, int64_t width, const T* from, int64_t begin,
             int64_t channels, const T* added, T* to) {
  constexpr int64_t kRun = 16384;
  const int64_t runs = (channels + kRun - 1) / kRun;
  ParallelFor(device, rows * runs, [&](int64_t piece) {
    const int64_t row = piece / runs, first = piece % runs * kRun;
    const int64_t end = std::min(channels, first + kRun), offset = row * channels;
    const int64_t slice_begin = std::clamp(begin, first, end);
    const int64_t slice_end = std::clamp(begin + width, first, end);
    if (added == nullptr) {
      std::fill(to + offset + first, to + offset + end, T());
      std::copy(from + row * width + slice_begin - begin, from + row * width + slice_end - begin,
                to + offset + slice_begin);
      return;
    }
    std::copy(added + offset + first, added + offset + end, to + offset + first);
    for (int64_t i = slice_begin; i < slice_end; ++i) {
      Store(to + offset + i, Load(added + offset + i) + Load(from + row * width + i - begin));
    }
  });
}

Shape WithWidth(Shape shape, int64_t width) {
  shape.Set(-1, width);
  return shape;
}

// Copy `part` to the columns of `whole` that begin at `column`, and back.
void CopyIntoOnGpu(const Tensor& part, int64_t column, const Tensor& whole) {
  const int64_t width = part.dim(-1), stride = whole.dim(-1);
  CountWork(0, static_cast<double>(part.size_bytes()));  // what is written
  WithElements(
      [&](auto* from) {
        auto* const to = static_cast<decltype(from)>(whole.raw_data());
        cuda::CopyColumns(cuda::StreamOf(whole), part.num_elements() / width, width, from, width,
                          to + column, stride);
      },
      part);
}
void CopyFromOnGpu(const Tensor& whole, int64_t column, const Tensor& part) {
  const int64_t width = part.dim(-1), stride = whole.dim(-1);
  CountWork(0, static_cast<double>(part.size_bytes()));  // what is read
  WithElements(
      [&](auto* to) {
        const auto* const from = static_cast<decltype(to)>(whole.raw_data());
        cuda::CopyColumns(cuda::StreamOf(whole), part.num_elements() / width, width, from + column,
                          stride, to, width);
      },
      part);
}

}  // namespace

absl::StatusOr<Tensor> ConcatChannels(absl::Span<const Tensor> parts) {
  DPIPE_CHECK(!parts.empty());
  int64_t width = 0;
  for (const Tensor& part : parts) {
    CheckFloat(part);
    CheckSameType(part, parts[0]);
    DPIPE_CHECK_EQ(WithWidth(part.shape(), 0), WithWidth(parts[0].shape(), 0));
    width += part.dim(-1);
  }
  const Tensor& first = parts[0];
  Tensor joined = Tensor::Empty(first.device(), WithWidth(first.shape(), width), first.dtype());
  const auto copy = [&] {
    const int64_t element = SizeOf(first.dtype());
    const int64_t rows = first.num_elements() / first.dim(-1);
    char* to = static_cast<char*>(joined.raw_data());
    for (const Tensor& part : parts) {
      const int64_t bytes = part.dim(-1) * element;
      CopyColumns(*first.device(), static_cast<const char*>(part.raw_data()), bytes, to,
                  width * element, bytes, rows);
      to += bytes;
    }
  };
  const auto enqueue = [&] {
    int64_t column = 0;
    for (const Tensor& part : parts) {
      CopyIntoOnGpu(part, column, joined);
      column += part.dim(-1);
    }
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*first.device(), "concat", copy, enqueue));
  return joined;
}

absl::StatusOr<std::vector<Tensor>> SplitChannels(const Tensor& x,
                                                  absl::Span<const int64_t> channels) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(std::accumulate(channels.begin(), channels.end(), int64_t{0}), x.dim(-1));
  std::vector<Tensor> parts;
  for (int64_t width : channels) {
    parts.push_back(Tensor::Empty(x.device(), WithWidth(x.shape(), width), x.dtype()));
  }
  const auto copy = [&] {
    const int64_t element = SizeOf(x.dtype());
    const int64_t rows = x.num_elements() / x.dim(-1);
    const char* from = static_cast<const char*>(x.raw_data());
    for (const Tensor& part : parts) {
      const int64_t bytes = part.dim(-1) * element;
      CopyColumns(*x.device(), from, x.dim(-1) * element, static_cast<char*>(part.raw_data()),
                  bytes, bytes, rows);
      from += bytes;
    }
  };
  const auto enqueue = [&] {
    int64_t column = 0;
    for (const Tensor& part : parts) {
      CopyFromOnGpu(x, column, part);
      column += part.dim(-1);
    }
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*x.device(), "split", copy, enqueue));
  return parts;
}

absl::StatusOr<Tensor> SliceChannels(const Tensor& x, int64_t begin, int64_t width) {
  CheckFloat(x);
  DPIPE_CHECK(0 <= begin && 0 < width && begin + width <= x.dim(-1))
      << "elements [" << begin << ", " << begin + width << ") of " << x.shape();
  const Tensor part = Tensor::Empty(x.device(), WithWidth(x.shape(), width), x.dtype());
  const auto copy = [&] {
    const int64_t element = SizeOf(x.dtype());
    CopyColumns(*x.device(), static_cast<const char*>(x.raw_data()) + begin * element,
                x.dim(-1) * element, static_cast<char*>(part.raw_data()), width * element,
                width * element, x.num_elements() / x.dim(-1));
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*x.device(), "slice", copy, [&] { CopyFromOnGpu(x, begin, part); }));
  return part;
}

absl::StatusOr<Tensor> SliceChannelsInputGrad(const Tensor& dy, int64_t begin, int64_t channels,
                                              const Tensor& addend) {
  CheckFloat(dy);
  const int64_t width = dy.dim(-1), rows = dy.num_elements() / width;
  DPIPE_CHECK(0 <= begin && begin + width <= channels)
      << dy.shape() << " at element " << begin << " of " << channels;
  const Shape shape = WithWidth(dy.shape(), channels);
  CheckAddend(addend, shape, dy.dtype());
  const Tensor dx = Tensor::Empty(dy.device(), shape, dy.dtype());
  const auto elements = [&](const auto& f) {
    WithElements(
        [&](const auto* from, auto* to) {
          f(from,
            addend.defined() ? static_cast<decltype(from)>(addend.raw_data()) : decltype(from)(),
            to);
        },
        dy, dx);
  };
  const auto pad = [&] {
    elements([&](const auto* from, const auto* added, auto* to) {
      PadRows(*dy.device(), rows, width, from, begin, channels, added, to);
    });
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*dy.device(), "slice's input gradient", pad, [&] {
    elements([&](const auto* from, const auto* added, auto* to) {
      cuda::PadColumns(cuda::StreamOf(dy), rows, width, from, begin, channels, added, to);
    });
  }));
  return dx;
}

namespace {

using cuda::PatchShape;

// Calls f(index in the image, index in the patches) for every element.
template <typename F>
void ForEachElement(const PatchShape& shape, const F& f) {
  const int64_t size = shape.size, channels = shape.image.channels;
  const int64_t rows = shape.image.height / size, columns = shape.image.width / size;
  int64_t i = 0;
  for (int64_t b = 0; b < shape.image.batch; ++b) {
    for (int64_t y = 0; y < shape.image.height; ++y) {
      for (int64_t x = 0; x < shape.image.width; ++x) {
        const int64_t patch = (b * rows + y / size) * columns + x / size;
        const int64_t in_patch = y % size * size + x % size;
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t at =
              shape.channel_first ? c * size * size + in_patch : in_patch * channels + c;
          f(i++, patch * channels * size * size + at);
        }
      }
    }
  }
}

PatchShape PatchShapeOf(PatchOrder order, int64_t size, const Tensor& image) {
  const PatchShape shape = {cuda::ImageShapeOf(image), size, order == PatchOrder::kChannelFirst};
  DPIPE_CHECK(size > 0 && shape.image.height % size == 0 && shape.image.width % size == 0)
      << image.shape() << " in patches of " << size << " x " << size;
  return shape;
}

}  // namespace

absl::StatusOr<Tensor> Patchify(PatchOrder order, int64_t size, const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 4) << x.shape();
  const PatchShape shape = PatchShapeOf(order, size, x);
  const int64_t tokens = x.dim(1) / size * (x.dim(2) / size);
  Tensor patches = Tensor::Empty(x.device(), {x.dim(0), tokens, x.dim(3) * size * size}, x.dtype());
  // Latents are small and this only moves them, so one loop serves every host device.
  const auto move = [&] {
    WithElements(
        [&](const auto* from, auto* to) {
          ForEachElement(shape, [&](int64_t i, int64_t j) { to[j] = from[i]; });
        },
        x, patches);
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*x.device(), "patchify", move, [&] {
    WithElements(
        [&](const auto* from, auto* to) { cuda::CutPatches(cuda::StreamOf(x), shape, from, to); },
        x, patches);
  }));
  return patches;
}

absl::StatusOr<Tensor> Unpatchify(PatchOrder order, int64_t size, int64_t height, int64_t width,
                                  const Tensor& patches) {
  CheckFloat(patches);
  DPIPE_CHECK_EQ(patches.shape().rank(), 3) << patches.shape();
  DPIPE_CHECK_EQ(patches.dim(2) % (size * size), 0) << patches.shape();
  DPIPE_CHECK_EQ(patches.dim(1), height / size * (width / size)) << patches.shape();
  Tensor image = Tensor::Empty(patches.device(),
                               {patches.dim(0), height, width, patches.dim(2) / (size * size)},
                               patches.dtype());
  const PatchShape shape = PatchShapeOf(order, size, image);
  const auto move = [&] {
    WithElements(
        [&](const auto* from, auto* to) {
          ForEachElement(shape, [&](int64_t i, int64_t j) { to[i] = from[j]; });
        },
        patches, image);
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*patches.device(), "unpatchify", move, [&] {
    WithElements([&](const auto* from,
                     auto* to) { cuda::JoinPatches(cuda::StreamOf(image), shape, from, to); },
                 patches, image);
  }));
  return image;
}

}  // namespace dpipe::ops
