// Compares the ops without large matrices with PyTorch's results, on the reference and the CPU.
//
// Tolerances. fp32: goldens are float64 results rounded once, so only our own rounding remains, as
// in each op's test. bf16: x, dy and parameters' activations are first rounded to 2^-9 relative,
// and the result again. Each passes through functions of slope about 1, giving 1 % in norm (2
// % for gradients, which depend on three rounded tensors).
#include <tuple>

#include "core/ops/diffusion/diffusion.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/image/rearrange.h"
#include "core/ops/image/resize.h"
#include "core/ops/norm/group_norm.h"
#include "core/ops/norm/layer_norm.h"
#include "core/ops/testing/golden.h"

namespace dpipe::ops {
namespace {

class PlainOpsGoldenTest : public ::testing::TestWithParam<std::tuple<bool, DType>> {
 protected:
  // Returns an activation in the dtype under test; parameters and their gradients stay fp32.
  Tensor Activation(const GoldenCase& c, const char* name) const {
    return c.Get(name, device_, dtype_);
  }
  Tensor Parameter(const GoldenCase& c, const char* name) const { return c.Get(name, device_); }

  void ExpectGolden(const Tensor& actual, const GoldenCase& c, const char* name,
                    Tolerance fp32 = {3e-6, 3e-6}, double bf16_bound = 0.02) const {
    SCOPED_TRACE(c.name() + "/" + name);
    const Tensor expected = c.Get(name, device_);
    if (dtype_ == DType::kF32) {
      ExpectClose(actual, expected, fp32);
    } else {
      ExpectCloseInNorm(actual, expected, bf16_bound);
    }
  }

  const DType dtype_ = std::get<1>(GetParam());
  const std::shared_ptr<Device> device_ =
      std::get<0>(GetParam()) ? Device::CpuReference() : Device::Cpu();
};

TEST_P(PlainOpsGoldenTest, Activations) {
  const std::pair<const char*, ops::Activation> all[] = {
      {"silu", ops::Activation::kSilu},
      {"gelu", ops::Activation::kGelu},
      {"quick_gelu", ops::Activation::kQuickGelu}};
  for (const auto& [name, activation] : all) {
    for (const GoldenCase& c : GoldenCases(name)) {
      const Tensor x = Activation(c, "x"), dy = Activation(c, "dy");
      ExpectGolden(*ActivationForward(activation, x), c, "y", {1e-6, 1e-6}, 0.01);
      ExpectGolden(*ActivationInputGrad(activation, x, dy), c, "dx");
    }
  }
}

TEST_P(PlainOpsGoldenTest, Geglu) {
  for (const GoldenCase& c : GoldenCases("geglu")) {
    const Tensor x = Activation(c, "x"), dy = Activation(c, "dy");
    ExpectGolden(*GegluForward(x), c, "y", {1e-6, 1e-6}, 0.01);
    ExpectGolden(*GegluInputGrad(x, dy), c, "dx");
  }
}

TEST_P(PlainOpsGoldenTest, GroupNorm) {
  for (const GoldenCase& c : GoldenCases("group_norm")) {
    const bool large_mean = c.name() == "group_norm_large_mean";
    // bf16 has 8 bits: for values far from 0 nothing remains to normalize.
    if (large_mean && dtype_ == DType::kBf16) continue;
    // There, x a - mean a rounds values that are larger by the ratio of mean and deviation.
    const Tolerance tolerance = large_mean ? Tolerance{1e-4, 3e-4} : Tolerance{1e-5, 1e-5};
    GroupNormParams params;
    params.groups = c.Attribute<int>("groups");
    params.eps = c.Attribute<float>("eps");
    const Tensor x = Activation(c, "x"), dy = Activation(c, "dy");
    const Tensor w = Parameter(c, "w"), b = Parameter(c, "b");
    const GroupNormResult y = *GroupNormForward(params, x, w, b);
    ExpectGolden(y.y, c, "y", tolerance, 0.01);
    const GroupNormGrads grads = *GroupNormInputGrad(params, x, dy, y.stats, w, b);
    ExpectGolden(grads.dx, c, "dx", tolerance);
    Tensor dw = Tensor::Zeros(device_, w.shape(), DType::kF32), db = dw.Clone();
    ASSERT_TRUE(GroupNormWeightGrad(grads.sums, &dw, &db).ok());
    ExpectGolden(dw, c, "dw", tolerance);
    ExpectGolden(db, c, "db", tolerance);
  }
}

TEST_P(PlainOpsGoldenTest, LayerNorm) {
  for (const GoldenCase& c : GoldenCases("layer_norm")) {
    LayerNormParams params;
    params.eps = c.Attribute<float>("eps");
    const Tensor x = Activation(c, "x"), dy = Activation(c, "dy");
    const Tensor w = Parameter(c, "w"), b = Parameter(c, "b");
    const LayerNormResult y = *LayerNormForward(params, x, w, b);
    ExpectGolden(y.y, c, "y", {1e-5, 1e-5}, 0.01);
    const LayerNormGrads grads = *LayerNormInputGrad(x, dy, y.stats, w);
    ExpectGolden(grads.dx, c, "dx", {1e-5, 1e-5});
    Tensor dw = Tensor::Zeros(device_, w.shape(), DType::kF32), db = dw.Clone();
    ASSERT_TRUE(LayerNormWeightGrad(grads.sums, &dw, &db).ok());
    ExpectGolden(dw, c, "dw", {1e-5, 1e-5});
    ExpectGolden(db, c, "db", {1e-5, 1e-5});
  }
}

TEST_P(PlainOpsGoldenTest, Upsample) {
  for (const GoldenCase& c : GoldenCases("upsample_nearest")) {
    ExpectGolden(*UpsampleNearest2xForward(Activation(c, "x")), c, "y", {0, 0}, 0.01);
    ExpectGolden(*UpsampleNearest2xInputGrad(Activation(c, "dy")), c, "dx", {1e-6, 1e-6});
  }
}

TEST_P(PlainOpsGoldenTest, AveragePool) {
  for (const GoldenCase& c : GoldenCases("average_pool")) {
    ExpectGolden(*AveragePool2xForward(Activation(c, "x")), c, "y", {1e-6, 1e-6}, 0.01);
    ExpectGolden(*AveragePool2xInputGrad(Activation(c, "dy")), c, "dx", {1e-6, 1e-6}, 0.01);
  }
}

TEST_P(PlainOpsGoldenTest, ResizeBilinear) {
  for (const GoldenCase& c : GoldenCases("resize_bilinear")) {
    const Tensor x = Activation(c, "x"), dy = Activation(c, "dy");
    ExpectGolden(*ResizeBilinearForward(x, dy.dim(1), dy.dim(2)), c, "y", {1e-6, 1e-6}, 0.01);
    ExpectGolden(*ResizeBilinearInputGrad(dy, x.dim(1), x.dim(2)), c, "dx", {2e-6, 2e-6}, 0.01);
  }
}

TEST_P(PlainOpsGoldenTest, Modulate) {
  for (const GoldenCase& c : GoldenCases("modulate")) {
    const bool silu = c.Attribute<bool>("silu");
    const Tensor x = Activation(c, "x"), v = Activation(c, "v"), dy = Activation(c, "dy");
    ExpectGolden(*ModulateForward(silu, x, v), c, "y");
    const ModulateGrads grads = *ModulateInputGrad(silu, x, v, dy);
    ExpectGolden(grads.dx, c, "dx");
    ExpectGolden(grads.dv, c, "dv", {1e-5, 1e-5});
  }
}

TEST_P(PlainOpsGoldenTest, Concat) {
  for (const GoldenCase& c : GoldenCases("concat")) {
    const Tensor a = Activation(c, "a"), b = Activation(c, "b");
    ExpectGolden(*ConcatChannels({a, b}), c, "y", {0, 0}, 0.01);
    const std::vector<Tensor> grads = *SplitChannels(Activation(c, "dy"), {a.dim(-1), b.dim(-1)});
    ExpectGolden(grads[0], c, "da", {0, 0});
    ExpectGolden(grads[1], c, "db", {0, 0});
  }
}

TEST_P(PlainOpsGoldenTest, Embedding) {
  for (const GoldenCase& c : GoldenCases("embedding")) {
    const Tensor ids = c.Get("ids", device_), w = Parameter(c, "w");
    ExpectGolden(*EmbeddingForward(ids, w, Tensor(), dtype_), c, "y", {0, 0}, 0.01);
    Tensor dw = Tensor::Zeros(device_, w.shape(), DType::kF32);
    ASSERT_TRUE(EmbeddingWeightGrad(ids, Activation(c, "dy"), &dw, nullptr).ok());
    ExpectGolden(dw, c, "dw", {1e-6, 1e-6});
  }
}

TEST_P(PlainOpsGoldenTest, TimeEmbedding) {
  for (const GoldenCase& c : GoldenCases("time_embedding")) {
    TimeEmbeddingParams params;
    params.dim = c.Attribute<int>("width");
    params.cosine_first = c.Attribute<bool>("flip_sin_to_cos");
    params.frequency_shift = c.Attribute<double>("downscale_freq_shift");
    params.max_period = c.Attribute<double>("max_period");
    ExpectGolden(*ops::TimeEmbedding(params, c.Get("t", device_), dtype_), c, "y", {1e-6, 2e-7},
                 0.01);
  }
}

// The golden's loss is a mean over samples. Ours is per sample, with d_loss = dy / samples.
TEST_P(PlainOpsGoldenTest, MseLoss) {
  for (const char* op : {"mse_loss", "mse_loss_weighted"}) {
    for (const GoldenCase& c : GoldenCases(op)) {
      const Tensor input = Activation(c, "input"), target = Activation(c, "target");
      const Tensor weights = c.Has("weight") ? Parameter(c, "weight") : Tensor();
      const int64_t batch = input.dim(0);
      double mean = 0;
      for (double loss : Values(*MseLossForward(input, target, weights))) mean += loss / batch;
      ExpectGolden(Tensor::FromHost<float>(device_, {}, {static_cast<float>(mean)}), c, "y",
                   {1e-6, 1e-7}, 0.01);
      const float dy = Parameter(c, "dy").data<float>()[0];
      const Tensor d_loss =
          Tensor::FromHost<float>(device_, {batch}, std::vector<float>(batch, dy / batch));
      ExpectGolden(*MseLossInputGrad(input, target, weights, d_loss), c, "dinput", {1e-6, 1e-8});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ReferenceAndCpu, PlainOpsGoldenTest,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values(DType::kF32, DType::kBf16)));

}  // namespace
}  // namespace dpipe::ops
