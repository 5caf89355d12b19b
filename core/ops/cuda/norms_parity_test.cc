#include "core/ops/cuda/kernels/elementwise.h"
#include "core/ops/cuda/parity.h"
#include "core/ops/cuda/stream_of.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/norm/group_norm.h"
#include "core/ops/norm/layer_norm.h"
#include "core/ops/support/backend.h"
#include "core/ops/support/reference.h"

namespace dpipe::ops::cuda {
namespace {

class NormsParityTest : public ParityTest {};

struct GroupCase {
  Shape shape;
  int groups;
};

// One and several runs of 128 positions; one and several tiles of 32 packs; packs that span groups;
// groups wider than a warp; groups processed by a block, with few channels of many runs and with
// more channels than a block has threads.
const GroupCase kGroupCases[] = {{{2, 5, 7, 12}, 4},  {{3, 2, 40}, 4},   {{2, 9, 13, 64}, 32},
                                 {{1, 129, 33}, 3},   {{2, 300, 5}, 5},  {{2, 8, 8, 320}, 32},
                                 {{1, 140, 260}, 26}, {{2, 11, 80}, 2},  {{1, 1100, 200}, 2},
                                 {{1, 300, 600}, 2},  {{1, 1300, 64}, 2}};

// Normalised values and their products with the parameters are up to 20, and sums have up to 300 of
// them. Each rounding is 2^-23 of that, and there are a few roundings.
constexpr Tolerance kNorm = {1e-5, 2e-5};
constexpr Tolerance kSums = {3e-5, 2e-4};

TEST_P(NormsParityTest, GroupNorm) {
  for (const bool silu : {false, true}) {
    for (const GroupCase& c : kGroupCases) {
      GroupNormParams params;
      params.groups = c.groups;
      params.silu = silu;
      const Tensor x = Random(c.shape, GetParam(), 2, 0.5f);
      const Tensor scale = Random({c.shape[-1]}, DType::kF32);
      const Tensor bias = Random({c.shape[-1]}, DType::kF32);
      ExpectParity({x, scale, bias}, kNorm, [&](const Tensors& in) -> absl::StatusOr<Tensors> {
        const GroupNormResult result = *GroupNormForward(params, in[0], in[1], in[2]);
        return Tensors{result.y, result.stats};
      });
      // Uses the same statistics on both devices, so that only the error of this pass counts.
      const Tensor stats = GroupNormForward(params, x, scale, bias)->stats;
      ExpectParity({x, scale, bias, stats, Random(c.shape)}, kSums,
                   [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                     const GroupNormGrads grads =
                         *GroupNormInputGrad(params, in[0], in[4], in[3], in[1], in[2]);
                     // The addend is another tensor of x's shape.
                     const GroupNormGrads added =
                         *GroupNormInputGrad(params, in[0], in[4], in[3], in[1], in[2], in[4]);
                     return Tensors{grads.dx, grads.sums, added.dx, added.sums};
                   });
    }
  }
}

// A mean of a thousand deviations must not reduce the precision of the variance.
TEST_P(NormsParityTest, GroupNormOfLargeMean) {
  GroupNormParams params;
  params.groups = 2;
  const Tensor x = Random({2, 200, 16}, GetParam(), 1, 1000);
  const Tensor scale = Random({16}, DType::kF32), bias = Random({16}, DType::kF32);
  ExpectParity({x, scale, bias}, {1e-4, 1e-3}, [&](const Tensors& in) -> absl::StatusOr<Tensors> {
    const GroupNormResult result = *GroupNormForward(params, in[0], in[1], in[2]);
    return Tensors{result.y, result.stats};
  });
}

// Rows for 8, 16 and 32 lanes, full and partial; rows that are too long or not whole packs.
const Shape kLayerShapes[] = {{1, 7},      {3, 77, 40}, {2, 5, 321}, {2, 3, 4, 64}, {3, 7, 320},
                              {2, 5, 400}, {1, 9, 640}, {1, 2, 768}, {1, 2, 1280},  {1, 3, 1288}};

TEST_P(NormsParityTest, LayerNorm) {
  for (const Shape& shape : kLayerShapes) {
    const Tensor x = Random(shape, GetParam(), 2, 1), scale = Random({shape[-1]}, DType::kF32);
    const Tensor bias = Random({shape[-1]}, DType::kF32);
    ExpectParity({x, scale, bias}, kNorm, [](const Tensors& in) -> absl::StatusOr<Tensors> {
      const LayerNormResult result = *LayerNormForward({}, in[0], in[1], in[2]);
      return Tensors{result.y, result.stats};
    });
    const Tensor stats = LayerNormForward({}, x, scale, bias)->stats;
    ExpectParity(
        {x, Random(shape), stats, scale}, kSums, [](const Tensors& in) -> absl::StatusOr<Tensors> {
          const LayerNormGrads grads = *LayerNormInputGrad(in[0], in[1], in[2], in[3]);
          const LayerNormGrads added = *LayerNormInputGrad(in[0], in[1], in[2], in[3], in[1]);
          return Tensors{grads.dx, grads.sums, added.dx, added.sums};
        });
  }
}

// Gradients of many samples use a different kernel with the same bits. It is used for rows of 8, 16
// and 32 lanes with up to five packs each, but never for rows that are too long or not whole packs.
TEST_P(NormsParityTest, LayerNormOfManySamplesMatchesEachSample) {
  for (const Shape& shape :
       {Shape{514, 2, 40}, Shape{260, 130, 8}, Shape{514, 1, 160}, Shape{257, 3, 320},
        Shape{258, 1, 400}, Shape{130, 2, 640}, Shape{128, 2, 1280}, Shape{130, 2, 321}}) {
    const Tensor x = OnDevice(device_, Random(shape)), dy = OnDevice(device_, Random(shape));
    const Tensor scale = OnDevice(device_, Random({shape[-1]}, DType::kF32));
    const Tensor later = OnDevice(device_, Random(shape));
    const Tensor stats = LayerNormForward({}, x, scale, scale)->stats;
    const LayerNormGrads all = *LayerNormInputGrad(x, dy, stats, scale);
    const LayerNormGrads added = *LayerNormInputGrad(x, dy, stats, scale, later);
    for (const int64_t b : {int64_t{0}, int64_t{17}, shape[0] - 1}) {
      const auto of = [b](const Tensor& t) { return t.Slice(b, b + 1); };
      const Tensor own = stats.Slice(b * shape[1], (b + 1) * shape[1]);
      const LayerNormGrads one = *LayerNormInputGrad(of(x), of(dy), own, scale);
      ExpectSameBits(Here(of(all.dx)), Here(one.dx));
      ExpectSameBits(Here(of(all.sums)), Here(one.sums));
      ExpectSameBits(Here(of(added.dx)),
                     Here(LayerNormInputGrad(of(x), of(dy), own, scale, of(later))->dx));
    }
  }
}

// Rows of 8, 16 and 32 lanes, rows that are too long or not whole packs, and many samples, which
// without modulation have another kernel.
TEST_P(NormsParityTest, ModulatedLayerNorm) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 130, 7}, Shape{2, 5, 320}, Shape{2, 4, 640},
                             Shape{2, 3, 1280}, Shape{2, 4, 2000}, Shape{257, 1, 40}}) {
    for (const bool shift_first : {false, true}) {
      const ModulatedLayerNormParams params = {1e-6f, shift_first};
      ExpectParity({Random(shape, GetParam(), 2, 0.5f), Random({shape[0], 2 * shape[-1]}),
                    Random(shape), Random(shape)},
                   kSums, [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                     const auto y = *ModulatedLayerNormForward(params, in[0], in[1]);
                     const auto g = *ModulatedLayerNormInputGrad(params, in[0], in[2], y.stats,
                                                                 y.scale, in[3]);
                     return Tensors{y.y, y.stats, y.scale, g.dx, g.dv};
                   });
    }
  }
}

// Also rows of heads, and as many rows per sample as need the second kernel that adds runs.
TEST_P(NormsParityTest, RmsNorm) {
  std::vector<Shape> shapes(std::begin(kLayerShapes), std::end(kLayerShapes));
  shapes.insert(shapes.end(), {{2, 90, 3, 64}, {1, 50, 2, 128}, {1, 8200, 1, 8}});
  for (const Shape& shape : shapes) {
    const Tensor x = Random(shape, GetParam(), 2, 1), scale = Random({shape[-1]}, DType::kF32);
    ExpectParity({x, scale}, kNorm, [](const Tensors& in) -> absl::StatusOr<Tensors> {
      const RmsNormResult result = *RmsNormForward({}, in[0], in[1]);
      return Tensors{result.y, result.rstd};
    });
    const Tensor rstd = RmsNormForward({}, x, scale)->rstd;
    ExpectParity({x, Random(shape), rstd, scale}, kSums,
                 [](const Tensors& in) -> absl::StatusOr<Tensors> {
                   const RmsNormGrads grads = *RmsNormInputGrad(in[0], in[1], in[2], in[3]);
                   const RmsNormGrads added = *RmsNormInputGrad(in[0], in[1], in[2], in[3], in[1]);
                   return Tensors{grads.dx, grads.sums, added.dx, added.sums};
                 });
  }
}

TEST_P(NormsParityTest, WeightGradsAddTheSamplesSums) {
  for (const int64_t channels : {1, 7, 300}) {
    const Tensor scale = Random({channels}, DType::kF32), bias = Random({channels}, DType::kF32);
    ExpectParity(
        {Random({5, channels, 2}, DType::kF32), Random({5, 2, channels}, DType::kF32), scale, bias},
        {1e-6, 2e-6}, [](const Tensors& in) -> absl::StatusOr<Tensors> {
          Tensor group_scale = in[2].Clone(), group_bias = in[3].Clone();
          Tensor layer_scale = in[2].Clone(), layer_bias = in[3].Clone();
          Tensor rms_scale = in[2].Clone();
          DPIPE_RETURN_IF_ERROR(GroupNormWeightGrad(in[0], &group_scale, &group_bias));
          DPIPE_RETURN_IF_ERROR(LayerNormWeightGrad(in[1], &layer_scale, &layer_bias));
          DPIPE_RETURN_IF_ERROR(RmsNormWeightGrad(in[1].Reshape({10, in[2].dim(0)}), &rms_scale));
          return Tensors{group_scale, group_bias, layer_scale, layer_bias, rms_scale};
        });
  }
}

TEST_P(NormsParityTest, AddChannels) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 130, 7}, Shape{2, 6, 5, 264}, Shape{2, 1, 40}}) {
    ExpectParity({Random(shape), Random({shape[0], shape[-1]})}, {1e-6, 2e-5},
                 [](const Tensors& in) -> absl::StatusOr<Tensors> {
                   return Tensors{*AddChannels(in[0], in[1]), *AddChannelsVectorGrad(in[0])};
                 });
  }
}

// The terms added after cuDNN's convolutions, in all combinations.
TEST_P(NormsParityTest, AddTerms) {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 150, 7}, Shape{3, 11, 264}}) {
    const int64_t channels = shape[2], sample = shape[1] * channels;
    const Tensor x = Random(shape), bias = Random({channels}, DType::kF32);
    const Tensor vector = Random({shape[0], channels}), image = Random(shape);
    for (int terms = 0; terms < 8; ++terms) {
      const bool has_bias = terms & 1, has_vector = terms & 2, has_image = terms & 4;
      const Tensor y = OnDevice(device_, x), on_bias = OnDevice(device_, bias);
      const Tensor on_vector = OnDevice(device_, vector), on_image = OnDevice(device_, image);
      WithElements(
          [&](auto* to, const auto* v, const auto* i) {
            AddTerms(StreamOf(y), ChannelsLastOf(y), has_bias ? on_bias.data<float>() : nullptr,
                     has_vector ? v : nullptr, has_image ? i : nullptr, to);
          },
          y, on_vector, on_image);
      const Tensor sum = Here(y);
      for (int64_t i = 0; i < x.num_elements(); ++i) {
        // In the kernel's order, in fp32.
        float everywhere = 0;
        if (has_vector) everywhere += ref::Get(vector, i / sample * channels + i % channels);
        if (has_bias) everywhere += ref::Get(bias, i % channels);
        float value = static_cast<float>(ref::Get(x, i)) + everywhere;
        if (has_image) value += static_cast<float>(ref::Get(image, i));
        Tensor expected = Tensor::Empty(host_, {1}, GetParam());
        ref::Put(expected, 0, value);
        ASSERT_EQ(ref::Get(sum, i), ref::Get(expected, 0)) << i << ", terms " << terms;
      }
    }
  }
}

TEST_P(NormsParityTest, SamplesDoNotDependOnTheirNeighbours) {
  // Groups processed by a warp, and by a block.
  for (const Shape& shape : {Shape{3, 150, 33}, Shape{3, 400, 600}}) {
    GroupNormParams params;
    params.groups = 3;
    const Tensor x = OnDevice(device_, Random(shape)), dy = OnDevice(device_, Random(shape));
    const Tensor scale = OnDevice(device_, Random({shape[-1]}, DType::kF32));
    const GroupNormResult all = *GroupNormForward(params, x, scale, scale);
    const GroupNormGrads grads = *GroupNormInputGrad(params, x, dy, all.stats, scale, scale);
    for (int b = 0; b < 3; ++b) {
      const Tensor one = x.Slice(b, b + 1).Clone();
      const GroupNormResult alone = *GroupNormForward(params, one, scale, scale);
      ExpectSameBits(Here(alone.y), Here(all.y.Slice(b, b + 1)));
      const GroupNormGrads own =
          *GroupNormInputGrad(params, one, dy.Slice(b, b + 1), alone.stats, scale, scale);
      ExpectSameBits(Here(own.dx), Here(grads.dx.Slice(b, b + 1)));
      ExpectSameBits(Here(own.sums), Here(grads.sums.Slice(b, b + 1)));
    }
    const RmsNormResult rms = *RmsNormForward({}, x, scale);
    const RmsNormGrads rms_grads = *RmsNormInputGrad(x, dy, rms.rstd, scale);
    const Tensor alone = x.Slice(1, 2).Clone();
    const RmsNormResult rms_alone = *RmsNormForward({}, alone, scale);
    ExpectSameBits(Here(rms_alone.y), Here(rms.y.Slice(1, 2)));
    const RmsNormGrads own = *RmsNormInputGrad(alone, dy.Slice(1, 2), rms_alone.rstd, scale);
    ExpectSameBits(Here(own.dx), Here(rms_grads.dx.Slice(1, 2)));
    ExpectSameBits(Here(own.sums), Here(rms_grads.sums.Slice(1, 2)));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, NormsParityTest, ::testing::Values(DType::kF32, DType::kBf16));

}  // namespace
}  // namespace dpipe::ops::cuda
