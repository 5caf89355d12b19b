#include "core/ops/cuda/parity.h"
#include "core/ops/image/rearrange.h"
#include "core/ops/image/resize.h"

namespace dpipe::ops::cuda {
namespace {

class ImagesParityTest : public ParityTest {};

const Shape kSmall[] = {{1, 1, 1, 1}, {3, 2, 5, 7}, {2, 3, 1, 33}, {1, 8, 8, 64}};

Shape Doubled(const Shape& s) { return {s[0], 2 * s[1], 2 * s[2], s[3]}; }

TEST_P(ImagesParityTest, Upsample) {
  for (const Shape& small : kSmall) {
    ExpectParity(
        {Random(small), Random(Doubled(small))}, {1e-6, 1e-6},
        [](const Tensors& in) -> absl::StatusOr<Tensors> {
          return Tensors{*UpsampleNearest2xForward(in[0]), *UpsampleNearest2xInputGrad(in[1])};
        });
  }
}

TEST_P(ImagesParityTest, AveragePool) {
  for (const Shape& small : kSmall) {
    ExpectParity({Random(Doubled(small)), Random(small)}, {1e-6, 1e-6},
                 [](const Tensors& in) -> absl::StatusOr<Tensors> {
                   return Tensors{*AveragePool2xForward(in[0]), *AveragePool2xInputGrad(in[1])};
                 });
  }
}

struct ResizeCase {
  Shape from;
  int64_t height, width;
};

TEST_P(ImagesParityTest, ResizeBilinear) {
  const ResizeCase cases[] = {{{1, 1, 1, 3}, 4, 5},  {{2, 3, 4, 7}, 3, 4}, {{2, 3, 5, 8}, 7, 11},
                              {{1, 8, 4, 3}, 16, 9}, {{1, 9, 7, 2}, 4, 3}, {{1, 6, 6, 9}, 1, 1}};
  for (const ResizeCase& c : cases) {
    // Up to 35 weighted values of size 1. Both devices compute the same positions.
    ExpectParity({Random(c.from), Random({c.from[0], c.height, c.width, c.from[3]})}, {2e-6, 4e-6},
                 [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                   return Tensors{*ResizeBilinearForward(in[0], c.height, c.width),
                                  *ResizeBilinearInputGrad(in[1], c.from[1], c.from[2])};
                 });
  }
}

TEST_P(ImagesParityTest, ConcatAndSplitMoveBits) {
  for (const Shape& rows : {Shape{1, 1}, Shape{3, 5, 1}, Shape{2, 7, 9, 1}}) {
    Tensors parts;
    for (int64_t width : {1, 8, 13, 64}) {
      Shape shape = rows;
      shape.Set(-1, width);
      parts.push_back(Random(shape));
    }
    ExpectParity(parts, {0, 0}, [](const Tensors& in) -> absl::StatusOr<Tensors> {
      const Tensor joined = *ConcatChannels(in);
      Tensors all = *SplitChannels(joined, {9, 64, 13});
      all.push_back(joined);
      return all;
    });
  }
}

TEST_P(ImagesParityTest, SlicesAndTheirGradients) {
  for (const int64_t begin : {0, 8, 13}) {
    for (const int64_t width : {1, 24, 51}) {
      const Shape part{3, 5, width}, whole{3, 5, 64};
      ExpectParity({Random(whole), Random(part), Random(whole)}, {1e-6, 0},
                   [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                     return Tensors{*SliceChannels(in[0], begin, width),
                                    *SliceChannelsInputGrad(in[1], begin, 64),
                                    *SliceChannelsInputGrad(in[1], begin, 64, in[2])};
                   });
    }
  }
}

TEST_P(ImagesParityTest, PatchesMoveBits) {
  for (const PatchOrder order : {PatchOrder::kChannelFirst, PatchOrder::kPixelFirst}) {
    for (const int64_t size : {1, 2, 3}) {
      ExpectParity({Random({2, 6, 12, 5})}, {0, 0},
                   [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                     const Tensor patches = *Patchify(order, size, in[0]);
                     return Tensors{patches, *Unpatchify(order, size, 6, 12, patches)};
                   });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ImagesParityTest, ::testing::Values(DType::kF32, DType::kBf16));

}  // namespace
}  // namespace dpipe::ops::cuda
