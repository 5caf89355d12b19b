#include "core/ops/attention/attention.h"

#include <thread>

#include "core/base/host/usable_cpus.h"
#include "core/ops/testing/bf16_choice_test_base.h"

namespace dpipe::ops {
namespace {

using onednn::Bf16Choice;

struct Case {
  int64_t batch, queries, keys;
  int heads;
  int64_t head_size;
  bool causal;
};

// Self, cross, causal; odd sizes; one key; too many scores to be saved, in one block of queries and
// in several with a remainder (300 keys: blocks of 873 queries); enough scores for bf16
// instructions, and few enough to be saved.
const Case kCases[] = {
    {2, 16, 16, 2, 8, false},  {1, 1, 1, 1, 1, false},     {2, 9, 5, 3, 7, false},
    {1, 20, 1, 2, 4, false},   {2, 33, 33, 2, 16, true},   {3, 64, 32, 2, 32, false},
    {1, 270, 270, 1, 8, true}, {1, 900, 300, 2, 5, false}, {2, 161, 129, 2, 16, false},
    {1, 200, 200, 2, 7, true},
};

AttentionParams Params(const Case& c) {
  return {c.heads, AttentionScale(c.heads * c.head_size, c.heads), c.causal};
}

struct Inputs {
  Inputs(const std::shared_ptr<Device>& device, const Case& c, DType dtype, uint64_t seed)
      : q(RandomTensor(device, {c.batch, c.queries, c.heads * c.head_size}, dtype, seed, 1.5f)),
        k(RandomTensor(device, {c.batch, c.keys, c.heads * c.head_size}, dtype, seed + 1, 1.5f)),
        v(RandomTensor(device, {c.batch, c.keys, c.heads * c.head_size}, dtype, seed + 2)),
        dy(RandomTensor(device, q.shape(), dtype, seed + 3)) {}
  Tensor q, k, v, dy;
};

// Scores reach 10. There exp turns an error of 2^-24 * 10 into the same relative error, so 1e-5
// covers fp32. bf16: y is fp32 rounded once, which gives adjacent numbers, up to 2^-7 apart.
// Gradients use the probabilities rounded to bf16: a relative error of 2^-9 in each of many terms
// of order 1, most of which averages out. That is 2^-7 of an element's size and 0.015 of the sums'
// scale. Bf16 instructions also round probabilities before multiplying them by values of up to 4:
// 2^-9 of 4.
Tolerance OutputTolerance(DType dtype, Bf16Choice choice) {
  if (dtype == DType::kF32) return {1e-5, 1e-5};
  return {1.0 / 128, choice == Bf16Choice::kNative ? 8e-3 : 1e-4};
}
Tolerance ForGradient(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{2e-5, 4e-5} : Tolerance{1.0 / 128, 1.5e-2};
}

class AttentionTest : public Bf16ChoiceTest {
 protected:
  Tolerance ForOutput() const { return OutputTolerance(dtype(), choice()); }
};

TEST_P(AttentionTest, CpuAgreesWithReference) {
  cpu_->allocator().set_poison(true);
  for (const Case& c : kCases) {
    const AttentionParams params = Params(c);
    const Inputs in(cpu_, c, dtype(), 1);
    SCOPED_TRACE(in.q.shape().ToString() + " " + in.k.shape().ToString());
    const AttentionResult result = *AttentionForward(params, in.q, in.k, in.v);
    const AttentionGrads grads = *AttentionInputGrad(params, in.dy, in.q, in.k, in.v, result.saved);
    const Tensor q = OnDevice(ref_, in.q), k = OnDevice(ref_, in.k), v = OnDevice(ref_, in.v);
    const AttentionResult expected = *AttentionForward(params, q, k, v);
    ExpectClose(result.y, expected.y, ForOutput());
    const AttentionGrads expected_grads =
        *AttentionInputGrad(params, OnDevice(ref_, in.dy), q, k, v, expected.saved);
    ExpectClose(grads.dq, expected_grads.dq, ForGradient(dtype()));
    ExpectClose(grads.dk, expected_grads.dk, ForGradient(dtype()));
    ExpectClose(grads.dv, expected_grads.dv, ForGradient(dtype()));
  }
}

// All cases above, with a bias of size 1.
TEST_P(AttentionTest, RelativeBiasAgreesWithReference) {
  cpu_->allocator().set_poison(true);
  // The bias makes single probabilities larger, and so do their roundings to bf16: twice the error.
  Tolerance gradient_tolerance = ForGradient(dtype());
  gradient_tolerance.absolute *= 2;
  for (const Case& c : kCases) {
    const AttentionParams params = Params(c);
    const Inputs in(cpu_, c, dtype(), 1);
    const Tensor bias =
        RandomTensor(cpu_, {c.batch, c.heads, c.queries + c.keys - 1}, DType::kF32, 9);
    SCOPED_TRACE(in.q.shape().ToString() + " " + in.k.shape().ToString());
    const AttentionResult result = *AttentionForward(params, in.q, in.k, in.v, true, bias);
    const AttentionGrads grads =
        *AttentionInputGrad(params, in.dy, in.q, in.k, in.v, result.saved, bias);
    const Tensor q = OnDevice(ref_, in.q), k = OnDevice(ref_, in.k), v = OnDevice(ref_, in.v);
    const Tensor ref_bias = OnDevice(ref_, bias);
    const AttentionResult expected = *AttentionForward(params, q, k, v, true, ref_bias);
    ExpectClose(result.y, expected.y, ForOutput());
    const AttentionGrads expected_grads =
        *AttentionInputGrad(params, OnDevice(ref_, in.dy), q, k, v, expected.saved, ref_bias);
    ExpectClose(grads.dq, expected_grads.dq, gradient_tolerance);
    ExpectClose(grads.dk, expected_grads.dk, gradient_tolerance);
    ExpectClose(grads.dv, expected_grads.dv, gradient_tolerance);
    ExpectClose(grads.drelative_bias, expected_grads.drelative_bias, gradient_tolerance);
    const AttentionResult plain = *AttentionForward(params, in.q, in.k, in.v, false, bias);
    ExpectSameBits(plain.y, result.y);
  }
}

TEST_P(AttentionTest, WithoutSavedTheOutputIsTheSame) {
  for (const Case& c : kCases) {
    const Inputs in(cpu_, c, dtype(), 1);
    const AttentionResult plain = *AttentionForward(Params(c), in.q, in.k, in.v, false);
    EXPECT_FALSE(plain.saved.defined());
    ExpectSameBits(plain.y, AttentionForward(Params(c), in.q, in.k, in.v, true)->y);
  }
}

TEST_P(AttentionTest, SameBitsTwiceAndSamplesAreIndependent) {
  for (const Case& c : {Case{3, 40, 24, 2, 16, false}, Case{3, 300, 300, 1, 8, true}}) {
    const AttentionParams params = Params(c);
    const Inputs in(cpu_, c, dtype(), 1);
    const AttentionResult result = *AttentionForward(params, in.q, in.k, in.v);
    const AttentionGrads grads = *AttentionInputGrad(params, in.dy, in.q, in.k, in.v, result.saved);
    ExpectSameBits(AttentionForward(params, in.q, in.k, in.v)->y, result.y);
    for (int64_t b = 0; b < c.batch; ++b) {
      const Tensor q = in.q.Slice(b, b + 1), k = in.k.Slice(b, b + 1), v = in.v.Slice(b, b + 1);
      const AttentionResult alone = *AttentionForward(params, q, k, v);
      ExpectSameBits(alone.y, result.y.Slice(b, b + 1));
      const AttentionGrads alone_grads =
          *AttentionInputGrad(params, in.dy.Slice(b, b + 1), q, k, v, alone.saved);
      ExpectSameBits(alone_grads.dq, grads.dq.Slice(b, b + 1));
      ExpectSameBits(alone_grads.dk, grads.dk.Slice(b, b + 1));
      ExpectSameBits(alone_grads.dv, grads.dv.Slice(b, b + 1));
    }
  }
}

TEST_P(AttentionTest, SameBitsOnSeveralThreads) {
  const auto several = Device::Cpu(std::vector<int>(3, AllowedCores()[0]));
  for (const Case& c : {Case{3, 40, 24, 2, 16, false}, Case{2, 160, 128, 2, 16, false}}) {
    const Inputs in(cpu_, c, dtype(), 1), on_several(several, c, dtype(), 1);
    const AttentionResult result = *AttentionForward(Params(c), in.q, in.k, in.v);
    const AttentionGrads grads =
        *AttentionInputGrad(Params(c), in.dy, in.q, in.k, in.v, result.saved);
    // In a separate thread, which may be pinned and have a team.
    std::thread worker([&] {
      ASSERT_TRUE(several->BindThread().ok());
      const Inputs& x = on_several;
      const AttentionResult other = *AttentionForward(Params(c), x.q, x.k, x.v);
      ExpectSameBits(other.y, result.y);
      const AttentionGrads other_grads =
          *AttentionInputGrad(Params(c), x.dy, x.q, x.k, x.v, other.saved);
      ExpectSameBits(other_grads.dq, grads.dq);
      ExpectSameBits(other_grads.dk, grads.dk);
      ExpectSameBits(other_grads.dv, grads.dv);
    });
    worker.join();
  }
}

// An offline cache's VAE encoder runs one sample with one head, perhaps on more cores than in
// training.
TEST_P(AttentionTest, OneHeadHasTheSameBitsOnSeveralThreads) {
  if (!onednn::NeedsFixedOrder()) GTEST_SKIP() << "the order is oneDNN's on this CPU";
  const Case c = {1, 256, 256, 1, 64, false};
  const auto several = Device::Cpu(std::vector<int>(3, AllowedCores()[0]));
  const Inputs in(cpu_, c, dtype(), 1), on_several(several, c, dtype(), 1);
  const Tensor y = AttentionForward(Params(c), in.q, in.k, in.v)->y;
  std::thread worker([&] {
    ASSERT_TRUE(several->BindThread().ok());
    const Inputs& x = on_several;
    ExpectSameBits(AttentionForward(Params(c), x.q, x.k, x.v)->y, y);
  });
  worker.join();
}

TEST_P(AttentionTest, CausalQueriesDoNotSeeLaterKeys) {
  const Case c = {1, 20, 20, 2, 8, true};
  const Inputs in(cpu_, c, dtype(), 1), other(cpu_, c, dtype(), 50);
  Tensor k = in.k.Clone().Reshape({20, 16}), v = in.v.Clone().Reshape({20, 16});
  k.Slice(12, 20).CopyFrom(other.k.Reshape({20, 16}).Slice(12, 20));
  v.Slice(12, 20).CopyFrom(other.v.Reshape({20, 16}).Slice(12, 20));
  const Tensor y = AttentionForward(Params(c), in.q, in.k, in.v)->y.Reshape({20, 16});
  const Tensor changed =
      AttentionForward(Params(c), in.q, k.Reshape({1, 20, 16}), v.Reshape({1, 20, 16}))
          ->y.Reshape({20, 16});
  ExpectClose(changed.Slice(0, 12), y.Slice(0, 12), ForOutput());
  EXPECT_NE(Values(changed.Slice(12, 13)), Values(y.Slice(12, 13)));
}

TEST_P(AttentionTest, MemoryKeptForBackwardIsLinearInManyTokens) {
  const Case c = {1, 1024, 1024, 2, 8, false};
  const Inputs in(cpu_, c, dtype(), 1);
  const AttentionResult result = *AttentionForward(Params(c), in.q, in.k, in.v);
  EXPECT_EQ(result.saved.size_bytes(), 2 * 1024 * 4);
}

INSTANTIATE_TEST_SUITE_P(DTypes, AttentionTest, ::testing::ValuesIn(DTypesAndChoices()),
                         ChoiceName);

TEST(AttentionReferenceTest, ByHand) {
  const auto ref = Device::CpuReference();
  // One query with scores 0 and log 3 for two keys: probabilities 1/4 and 3/4.
  const Tensor q = Tensor::FromHost<float>(ref, {1, 1, 1}, {1});
  const Tensor k = Tensor::FromHost<float>(ref, {1, 2, 1}, {0, std::log(3.0f)});
  const Tensor v = Tensor::FromHost<float>(ref, {1, 2, 1}, {4, 8});
  EXPECT_NEAR(Values(AttentionForward({1, 1.0f, false}, q, k, v)->y)[0], 7, 1e-6);
}

TEST(AttentionReferenceTest, RelativeBiasByHand) {
  const auto ref = Device::CpuReference();
  // Two queries and two keys with equal scores. Biases of j - i = -1, 0, 1: the first query has
  // probabilities 1/4 and 3/4, the second one 5/6 and 1/6.
  const Tensor q = Tensor::Zeros(ref, {1, 2, 1}, DType::kF32);
  const Tensor v = Tensor::FromHost<float>(ref, {1, 2, 1}, {4, 8});
  const Tensor bias = Tensor::FromHost<float>(ref, {1, 1, 3}, {std::log(5.0f), 0, std::log(3.0f)});
  const std::vector<double> y = Values(AttentionForward({1, 1.0f, false}, q, q, v, true, bias)->y);
  EXPECT_NEAR(y[0], 7, 1e-6);
  EXPECT_NEAR(y[1], 14.0 / 3, 1e-6);
}

TEST(AttentionReferenceTest, GradientsAgreeWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  for (const Case& c : {Case{2, 4, 5, 2, 3, false}, Case{1, 6, 6, 1, 4, true}}) {
    const AttentionParams params = Params(c);
    const Inputs in(ref, c, DType::kF32, 1);
    const Shape bias_shape = {c.batch, c.heads, c.queries + c.keys - 1};
    for (const Tensor& bias : {Tensor(), RandomTensor(ref, bias_shape, DType::kF32, 9)}) {
      const Tensor saved = AttentionForward(params, in.q, in.k, in.v, true, bias)->saved;
      const AttentionGrads grads =
          *AttentionInputGrad(params, in.dy, in.q, in.k, in.v, saved, bias);
      const auto loss = [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& b) {
        return Dot(in.dy, AttentionForward(params, q, k, v, true, b)->y);
      };
      ExpectGradient([&](const Tensor& t) { return loss(t, in.k, in.v, bias); }, in.q, grads.dq);
      ExpectGradient([&](const Tensor& t) { return loss(in.q, t, in.v, bias); }, in.k, grads.dk);
      ExpectGradient([&](const Tensor& t) { return loss(in.q, in.k, t, bias); }, in.v, grads.dv);
      if (!bias.defined()) continue;
      ExpectGradient([&](const Tensor& t) { return loss(in.q, in.k, in.v, t); }, bias,
                     grads.drelative_bias);
    }
  }
}

}  // namespace
}  // namespace dpipe::ops
