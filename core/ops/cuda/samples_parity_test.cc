#include "core/ops/cuda/parity.h"
#include "core/ops/diffusion/diffusion.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/embedding/positions.h"
#include "core/ops/norm/group_norm.h"
#include "core/ops/product/bias_grad.h"
#include "core/ops/support/convert.h"

namespace dpipe::ops::cuda {
namespace {

class SamplesParityTest : public ParityTest {};

TEST_P(SamplesParityTest, CombineAnyTypes) {
  for (const DType other : {DType::kF32, DType::kBf16}) {
    // 130 samples take two launches.
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 4, 5, 7}, Shape{130, 9}}) {
      std::vector<float> a(shape[0]), b(shape[0]);
      for (int64_t i = 0; i < shape[0]; ++i) {
        a[i] = 0.1f * static_cast<float>(i % 11) - 0.5f;
        b[i] = 1.0f - a[i];
      }
      ExpectParity({Random(shape), Random(shape, other)}, {1e-6, 1e-6},
                   [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                     return Tensors{*CombineSamples(a, in[0], b, in[1], DType::kF32),
                                    *CombineSamples(a, in[0], b, in[1], DType::kBf16)};
                   });
    }
  }
}

TEST_P(SamplesParityTest, CombineWithWeightsOnTheDevice) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 4, 5, 7}, Shape{130, 9}}) {
    const Shape batch{shape[0]};
    ExpectParity(
        {Random(shape), Random(shape), Random(batch, DType::kF32), Random(batch, DType::kF32)},
        {1e-6, 1e-6}, [&](const Tensors& in) -> absl::StatusOr<Tensors> {
          return Tensors{*CombineSamples(in[2], in[0], in[3], in[1], DType::kF32)};
        });
  }
}

TEST_P(SamplesParityTest, LookUp) {
  // Tables that take several launches, and several blocks of samples.
  for (const int entries : {1, 1000, 2345}) {
    std::vector<float> table(entries);
    for (int i = 0; i < entries; ++i) table[i] = 0.5f * static_cast<float>(i);
    std::vector<int32_t> index(300);
    for (int i = 0; i < 300; ++i) index[i] = (i * 7919) % entries;
    const Tensor at = Tensor::FromHost<int32_t>(Device::Cpu(), {300}, index);
    ExpectParity({at}, {0, 0}, [&](const Tensors& in) -> absl::StatusOr<Tensors> {
      return Tensors{*LookUp(table, in[0])};
    });
  }
}

TEST_P(SamplesParityTest, InverseQuadratic) {
  for (const int samples : {1, 300}) {
    ExpectParity({Random({samples}, DType::kF32)}, {1e-7, 0},
                 [](const Tensors& in) -> absl::StatusOr<Tensors> {
                   return Tensors{*InverseQuadratic(2, {1, -2, 2}, in[0]),
                                  *InverseQuadratic(1, {0, 0, 1}, in[0])};
                 });
  }
}

TEST_P(SamplesParityTest, MseLoss) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 5, 7}, Shape{2, 4097}, Shape{5, 33, 40}}) {
    for (const bool weighted : {false, true}) {
      const Tensor weights = weighted ? Random({shape[0]}, DType::kF32) : Tensor();
      ExpectParity(
          {Random(shape), Random(shape, DType::kF32), weights, Random({shape[0]}, DType::kF32)},
          {1e-6, 1e-6}, [](const Tensors& in) -> absl::StatusOr<Tensors> {
            return Tensors{*MseLossForward(in[0], in[1], in[2]),
                           *MseLossForward(in[1], in[0], in[2]),
                           *MseLossInputGrad(in[0], in[1], in[2], in[3])};
          });
    }
  }
}

TEST_P(SamplesParityTest, Modulate) {
  for (const bool silu : {false, true}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 130, 7}, Shape{2, 6, 5, 264}}) {
      // Sums of up to 130 products of size up to 20.
      ExpectParity({Random(shape), Random({shape[0], 2 * shape[-1]}), Random(shape)}, {3e-5, 2e-4},
                   [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                     const ModulateGrads grads = *ModulateInputGrad(silu, in[0], in[1], in[2]);
                     return Tensors{*ModulateForward(silu, in[0], in[1]), grads.dx, grads.dv};
                   });
    }
  }
}

TEST_P(SamplesParityTest, BiasGradAddsRows) {
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 77, 40}, Shape{2, 200, 300}}) {
    ExpectParity({Random(shape), Random({shape[-1]}, DType::kF32)}, {1e-5, 2e-5},
                 [](const Tensors& in) -> absl::StatusOr<Tensors> {
                   Tensor db = in[1].Clone();
                   AddBiasGrad(in[0], &db);
                   return Tensors{db};
                 });
  }
}

// Sums of small integers are exact in any order.
TEST_P(SamplesParityTest, EachRunOf128RowsIsAddedOnce) {
  const auto integers = [this](const Shape& shape) {
    const Tensor t = Tensor::Empty(host_, shape, DType::kF32);
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      t.data<float>()[i] = static_cast<float>(i * 7919 % 8191 % 5) - 1;
    }
    return t.To(GetParam());
  };
  // From 64 runs on, each sum has 32 threads, and each thread reads 8 runs at a time.
  for (const Shape& shape :
       {Shape{63 * 128, 3}, Shape{63 * 128 + 1, 1}, Shape{2, 4096, 40}, Shape{300 * 128 + 5, 9}}) {
    const Tensor db = integers({shape[-1]}).To(DType::kF32);
    ExpectParity({integers(shape), db}, {0, 0}, [](const Tensors& in) -> absl::StatusOr<Tensors> {
      Tensor sums = in[1].Clone();
      AddBiasGrad(in[0], &sums);
      return Tensors{sums};
    });
  }
  // Several samples with two sums each.
  const Shape shape = {3, 65 * 128 + 7, 5};
  ExpectParity({integers(shape), integers({3, 10}), integers(shape)}, {0, 0},
               [](const Tensors& in) -> absl::StatusOr<Tensors> {
                 return Tensors{ModulateInputGrad(false, in[0], in[1], in[2])->dv};
               });
}

TEST_P(SamplesParityTest, Convert) {
  for (const int64_t n : {1, 255, 2049}) {
    ExpectParity({Random({n}, DType::kF32), Random({n}, DType::kBf16)}, {0, 0},
                 [](const Tensors& in) -> absl::StatusOr<Tensors> {
                   return Tensors{Widened(Narrowed(in[0])), Widened(in[1])};
                 });
  }
}

// Ids that occur once, often and never; first and last entries of the table.
Tensor Ids(const std::shared_ptr<Device>& device, int64_t batch, int64_t tokens, int vocabulary) {
  Tensor ids = Tensor::Empty(device, {batch, tokens}, DType::kI32);
  for (int64_t i = 0; i < ids.num_elements(); ++i) {
    ids.data<int32_t>()[i] = static_cast<int32_t>(i % 3 == 0 ? vocabulary - 1 : i * i % vocabulary);
  }
  return ids;
}

TEST_P(SamplesParityTest, Embedding) {
  for (const int64_t channels : {1, 40, 300}) {
    const Tensor ids = Ids(host_, 3, 7, 11);
    const Tensor table = Random({11, channels}, DType::kF32);
    const Tensor positions = Random({9, channels}, DType::kF32);
    ExpectParity({ids, table, positions, Random({3, 7, channels})}, {2e-6, 4e-6},
                 [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                   Tensor dtable = in[1].Clone(), dpositions = in[2].Clone();
                   DPIPE_RETURN_IF_ERROR(EmbeddingWeightGrad(in[0], in[3], &dtable, &dpositions));
                   return Tensors{*EmbeddingForward(in[0], in[1], in[2], GetParam()),
                                  *EmbeddingForward(in[0], in[1], Tensor(), GetParam()), dtable,
                                  dpositions};
                 });
  }
}

TEST_P(SamplesParityTest, EmbeddingOfAnIdOutsideTheTableIsNan) {
  const std::vector<int32_t> outside = {2, 3, -1};
  const Tensor ids = Tensor::FromHost<int32_t>(device_, {1, 3}, outside);
  const Tensor table = OnDevice(device_, Random({3, 5}, DType::kF32));
  const std::vector<double> y =
      Values(OnDevice(host_, *EmbeddingForward(ids, table, Tensor(), GetParam())));
  for (int i = 0; i < 15; ++i) EXPECT_EQ(std::isnan(y[i]), i >= 5) << i;
}

TEST_P(SamplesParityTest, TimeEmbedding) {
  TimeEmbeddingParams params;
  params.dim = 38;
  params.frequency_shift = 1;
  for (const bool cosine_first : {true, false}) {
    params.cosine_first = cosine_first;
    const Tensor integers = Tensor::FromHost<int32_t>(host_, {4}, {0, 1, 500, 999});
    ExpectParity({Random({7}, DType::kF32, 300), integers}, {1e-6, 1e-6},
                 [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                   return Tensors{*TimeEmbedding(params, in[0], GetParam()),
                                  *TimeEmbedding(params, in[1], GetParam())};
                 });
  }
}

// T5's buckets, and few buckets some of which have no distance.
TEST_P(SamplesParityTest, RelativeBias) {
  if (GetParam() == DType::kBf16) GTEST_SKIP() << "the bias is always fp32";
  for (const RelativeBiasParams& params :
       {RelativeBiasParams{32, 128, 150, 150}, RelativeBiasParams{32, 10, 40, 31},
        RelativeBiasParams{4, 4, 3, 2}, RelativeBiasParams{32, 128, 1, 1}}) {
    const int64_t heads = 3, offsets = params.queries + params.keys - 1;
    // The gradient sums up to 600 numbers of size 1 in the same order.
    ExpectParity({Random({params.num_buckets, heads}), Random({2, heads, offsets})}, {0, 0},
                 [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                   Tensor dtable = in[0].Clone();
                   DPIPE_RETURN_IF_ERROR(RelativeBiasWeightGrad(params, in[1], &dtable));
                   return Tensors{*RelativeBiasForward(params, 2, in[0]), dtable};
                 });
  }
}

TEST_P(SamplesParityTest, SelectToken) {
  const Tensor ids = Tensor::FromHost<int32_t>(host_, {3, 4}, {7, 2, 2, 9, 2, 9, 9, 1, 5, 3, 5, 4});
  ExpectParity({ids, Random({3, 4, 130}), Random({3, 130})}, {0, 0},
               [](const Tensors& in) -> absl::StatusOr<Tensors> {
                 return Tensors{*SelectTokenForward(2, in[0], in[1]),
                                *SelectTokenForward({}, in[0], in[1]),
                                *SelectTokenInputGrad(2, in[0], in[2]),
                                *SelectTokenInputGrad({}, in[0], in[2])};
               });
}

TEST_P(SamplesParityTest, GaussianSample) {
  for (const Shape& shape : {Shape{1, 1}, Shape{2, 5, 3, 4}, Shape{3, 300}}) {
    Shape moments = shape;
    moments.Set(-1, 2 * shape[-1]);
    // Log-variances on both sides of the clamping limits.
    ExpectParity(
        {Random(moments, GetParam(), 12), Random(shape, DType::kF32), Random(shape, DType::kF32)},
        {1e-6, 1e-6}, [](const Tensors& in) -> absl::StatusOr<Tensors> {
          return Tensors{*GaussianSampleForward(0.18f, in[0], in[1]),
                         *GaussianSampleInputGrad(0.18f, in[0], in[1], in[2])};
        });
  }
}

TEST_P(SamplesParityTest, RotaryEmbedding) {
  const struct {
    std::array<int64_t, 3> axes;
    int64_t text_tokens, columns;
    Shape x;
  } cases[] = {{{2, 4, 6}, 5, 4, {2, 17, 36}},
               {{16, 56, 56}, 3, 7, {1, 24, 256}},
               {{0, 2, 4}, 0, 1, {3, 40, 6}},
               {{4, 2, 2}, 6, 9, {1, 6, 16}}};
  for (const auto& c : cases) {
    RotaryParams params;
    params.axes = c.axes;
    params.text_tokens = c.text_tokens;
    params.image_columns = c.columns;
    ExpectParity({Random(c.x)}, {1e-6, 2e-6}, [&](const Tensors& in) -> absl::StatusOr<Tensors> {
      return Tensors{*RotaryEmbeddingForward(params, in[0]),
                     *RotaryEmbeddingInputGrad(params, in[0])};
    });
  }
}

TEST_P(SamplesParityTest, PositionTable) {
  for (const int64_t width : {4, 20, 48}) {
    const PositionTableParams params = {3, 5, 12, 4};
    ExpectParity({Random({2, 15, width})}, {1e-6, 1e-6},
                 [&](const Tensors& in) -> absl::StatusOr<Tensors> {
                   return Tensors{*AddPositionTable(params, in[0])};
                 });
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, SamplesParityTest, ::testing::Values(DType::kF32, DType::kBf16));

}  // namespace
}  // namespace dpipe::ops::cuda
