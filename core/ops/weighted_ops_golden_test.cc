// Compares conv2d, linear and attention with PyTorch's results.
#include <cmath>

#include "core/ops/attention/attention.h"
#include "core/ops/product/conv2d.h"
#include "core/ops/product/linear.h"
#include "core/ops/testing/golden.h"

namespace dpipe::ops {
namespace {

struct Backend {
  std::string name;
  std::shared_ptr<Device> device;
  DType dtype;
  // In norm. The goldens are float64 rounded to fp32, so the reference must match to fp32's
  // rounding, and fp32 kernels to that of sums of a few hundred products. In bf16, inputs, weights
  // and results are each rounded by an independent 2^-9, together about 4e-3, and twice that with
  // probabilities.
  double bound;
};

std::vector<Backend> Backends() {
  return {{"reference", Device::CpuReference(), DType::kF32, 2e-7},
          {"fp32", Device::Cpu(), DType::kF32, 2e-6},
          {"bf16", Device::Cpu(), DType::kBf16, 8e-3}};
}

class WeightedOpsGoldenTest : public ::testing::TestWithParam<Backend> {
 protected:
  Tensor Get(const GoldenCase& c, const std::string& name) const {
    return c.Get(name, GetParam().device, GetParam().dtype);
  }
  Tensor GetFp32(const GoldenCase& c, const std::string& name) const {
    return c.Has(name) ? c.Get(name, GetParam().device) : Tensor();
  }
  void Expect(const GoldenCase& c, const Tensor& actual, const std::string& name,
              double slack = 1) const {
    SCOPED_TRACE(c.name() + "/" + name);
    ExpectCloseInNorm(actual, c.Get(name, GetParam().device), slack * GetParam().bound);
  }
  // Runs `add`, which adds to dw and db (null if there is no bias), and checks the sums.
  void ExpectWeightGrads(const GoldenCase& c,
                         const std::function<absl::Status(Tensor*, Tensor*)>& add) const {
    Tensor dw = Tensor::Zeros(GetParam().device, GetFp32(c, "w").shape(), DType::kF32);
    Tensor db = Tensor::Zeros(GetParam().device, {dw.dim(0)}, DType::kF32);
    ASSERT_TRUE(add(&dw, c.Has("b") ? &db : nullptr).ok());
    Expect(c, dw, "dw");
    if (c.Has("b")) Expect(c, db, "db");
  }
};

TEST_P(WeightedOpsGoldenTest, Conv2d) {
  for (const GoldenCase& c : GoldenCases("conv2d")) {
    const Conv2dParams params = {c.Attribute<int>("stride"), c.Attribute<int>("pad_top"),
                                 c.Attribute<int>("pad_bottom"), c.Attribute<int>("pad_left"),
                                 c.Attribute<int>("pad_right")};
    const Weight w(GetFp32(c, "w"));
    const Tensor x = Get(c, "x"), dy = Get(c, "dy");
    Expect(c, *Conv2dForward(params, x, w, GetFp32(c, "b")), "y");
    Expect(c, *Conv2dInputGrad(params, dy, w, x.shape()), "dx");
    ExpectWeightGrads(
        c, [&](Tensor* dw, Tensor* db) { return Conv2dWeightGrad(params, x, dy, dw, db); });
  }
}

TEST_P(WeightedOpsGoldenTest, Linear) {
  for (const GoldenCase& c : GoldenCases("linear")) {
    const Weight w(GetFp32(c, "w"));
    const Tensor x = Get(c, "x"), dy = Get(c, "dy");
    Expect(c, *LinearForward(x, w, GetFp32(c, "b")), "y");
    Expect(c, *LinearInputGrad(dy, w), "dx");
    ExpectWeightGrads(c, [&](Tensor* dw, Tensor* db) { return LinearWeightGrad(x, dy, dw, db); });
  }
}

TEST_P(WeightedOpsGoldenTest, Attention) {
  for (const GoldenCase& c : GoldenCases("attention")) {
    const Tensor q = Get(c, "q"), k = Get(c, "k"), v = Get(c, "v");
    const AttentionParams params = {c.Attribute<int>("heads"),
                                    AttentionScale(q.dim(2), c.Attribute<int>("heads")),
                                    c.Attribute<bool>("causal")};
    const AttentionResult result = *AttentionForward(params, q, k, v);
    const AttentionGrads grads = *AttentionInputGrad(params, Get(c, "dy"), q, k, v, result.saved);
    // Scores have a standard deviation of 25 instead of 1. The softmax turns a rounding error in a
    // score into a relative error of the same size.
    const double slack = c.name() == "attention_sharp" ? 8 : 1;
    Expect(c, result.y, "y", slack);
    Expect(c, grads.dq, "dq", slack);
    Expect(c, grads.dk, "dk", slack);
    Expect(c, grads.dv, "dv", slack);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, WeightedOpsGoldenTest, ::testing::ValuesIn(Backends()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dpipe::ops
