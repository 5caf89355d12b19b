#include "core/ops/image/patchify.h"

#include "core/ops/cuda/kernels/images.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/support/backend.h"

namespace dpipe::ops {
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

PatchShape ShapeOf(PatchOrder order, int64_t size, const Tensor& image) {
  const PatchShape shape = {cuda::ImageShapeOf(image), size, order == PatchOrder::kChannelFirst};
  DPIPE_CHECK(size > 0 && shape.image.height % size == 0 && shape.image.width % size == 0)
      << image.shape() << " in patches of " << size << " x " << size;
  return shape;
}

}  // namespace

absl::StatusOr<Tensor> Patchify(PatchOrder order, int64_t size, const Tensor& x) {
  CheckFloat(x);
  DPIPE_CHECK_EQ(x.shape().rank(), 4) << x.shape();
  const PatchShape shape = ShapeOf(order, size, x);
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
  DPIPE_RETURN_IF_ERROR(RunOn(*x.device(), "patchify", move, move, [&] {
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
  const PatchShape shape = ShapeOf(order, size, image);
  const auto move = [&] {
    WithElements(
        [&](const auto* from, auto* to) {
          ForEachElement(shape, [&](int64_t i, int64_t j) { to[i] = from[j]; });
        },
        patches, image);
  };
  DPIPE_RETURN_IF_ERROR(RunOn(*patches.device(), "unpatchify", move, move, [&] {
    WithElements([&](const auto* from,
                     auto* to) { cuda::JoinPatches(cuda::StreamOf(image), shape, from, to); },
                 patches, image);
  }));
  return image;
}

}  // namespace dpipe::ops
