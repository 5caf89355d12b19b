#include "core/ops/product/linear.h"

#include <thread>

#include "core/base/host/usable_cpus.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/testing/bf16_choice_test_base.h"

namespace dpipe::ops {
namespace {

struct Case {
  Shape x;  // [..., in]
  int64_t out;
};

// Odd sizes, one row, one column, more rows than are widened at a time, a U-Net's feed-forward, a
// weight too large to be packed, square ones, small and large.
const Case kCases[] = {{{1, 1}, 1},        {{3, 5}, 7},         {{2, 3, 17}, 33},
                       {{4, 64}, 256},     {{2, 77, 40}, 24},   {{700, 96}, 200},
                       {{1, 64, 64}, 512}, {{2, 10, 512}, 520}, {{2, 9, 64}, 64},
                       {{2, 10, 520}, 520}};

// Inputs are standard normal and weights scaled by 1/sqrt(in), so outputs are of order 1. fp32:
// sums of up to 700 products of order 1 have an error of a few times sqrt(700) * 2^-24; with the
// tails of many elements, 2e-5. bf16: one more rounding. If sums are on two sides of a rounding
// boundary, the results are adjacent numbers, up to 2^-7 apart relatively.
Tolerance For(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{1e-5, 2e-5} : Tolerance{1.0 / 128, 1e-4};
}
// Weight gradients are fp32 for all operand types, and sum over rows: of order sqrt(700).
constexpr Tolerance kWeightGrad = {1e-5, 2e-4};

class LinearTest : public Bf16ChoiceTest {
 protected:
  Tensor Master(const Case& c, uint64_t seed) const {
    const Tensor master = RandomTensor(cpu_, {c.out, c.x[-1]}, DType::kF32, seed,
                                       1 / std::sqrt(static_cast<float>(c.x[-1])));
    // Values that bf16 represents exactly, because not every backend rounds them.
    return dtype() == DType::kF32 ? master : master.To(DType::kBf16).To(DType::kF32);
  }
  static Shape OutputShape(const Case& c) {
    Shape shape = c.x;
    shape.Set(-1, c.out);
    return shape;
  }
};

TEST_P(LinearTest, CpuAgreesWithReference) {
  cpu_->allocator().set_poison(true);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.x.ToString());
    const Weight w(Master(c, 1)), w_ref(OnDevice(ref_, w.master()));
    const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2);
    const Tensor dy = RandomTensor(cpu_, OutputShape(c), dtype(), 3);
    const Tensor x_ref = OnDevice(ref_, x), dy_ref = OnDevice(ref_, dy);
    for (const Tensor& bias : {Tensor(), RandomTensor(cpu_, {c.out}, DType::kF32, 4)}) {
      ExpectClose(*LinearForward(x, w, bias), *LinearForward(x_ref, w_ref, OnDevice(ref_, bias)),
                  For(dtype()));
    }
    // Sums over `out` of products with weights of 1/sqrt(in).
    Tolerance tolerance = For(dtype());
    tolerance.absolute *= std::max(1.0, std::sqrt(double(c.out) / c.x[-1]));
    ExpectClose(*LinearInputGrad(dy, w), *LinearInputGrad(dy_ref, w_ref), tolerance);

    Tensor dw = RandomTensor(cpu_, {c.out, c.x[-1]}, DType::kF32, 5);
    Tensor db = RandomTensor(cpu_, {c.out}, DType::kF32, 6);
    Tensor dw_ref = OnDevice(ref_, dw), db_ref = OnDevice(ref_, db);
    ASSERT_TRUE(LinearWeightGrad(x, dy, &dw, &db).ok());
    ASSERT_TRUE(LinearWeightGrad(x_ref, dy_ref, &dw_ref, &db_ref).ok());
    ExpectClose(dw, dw_ref, kWeightGrad);
    ExpectClose(db, db_ref, kWeightGrad);
    // Without a bias the weight's gradient is the same.
    Tensor dw_alone = RandomTensor(cpu_, {c.out, c.x[-1]}, DType::kF32, 5);
    ASSERT_TRUE(LinearWeightGrad(x, dy, &dw_alone, nullptr).ok());
    ExpectSameBits(dw_alone, dw);
  }
}

// On the CPU, the bits of a separate sum. Compared with the reference, which rounds once: twice
// 2^-9 of up to 8.
TEST_P(LinearTest, AnAddendIsAdded) {
  const Tolerance tolerance =
      dtype() == DType::kF32 ? For(dtype()) : Tolerance{1.0 / 128, 1.0 / 32};
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.x.ToString());
    const Weight w(Master(c, 1)), w_ref(OnDevice(ref_, w.master()));
    const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2);
    const Tensor dy = RandomTensor(cpu_, OutputShape(c), dtype(), 3);
    const Tensor bias = RandomTensor(cpu_, {c.out}, DType::kF32, 4);
    const Tensor residual = RandomTensor(cpu_, OutputShape(c), dtype(), 5);
    const Tensor later = RandomTensor(cpu_, c.x, dtype(), 6);
    const Tensor y = *LinearForward(x, w, bias, residual);
    const Tensor dx = *LinearInputGrad(dy, w, later);
    ExpectSameBits(y, *Add(*LinearForward(x, w, bias), residual));
    ExpectSameBits(dx, *Add(*LinearInputGrad(dy, w), later));
    ExpectClose(
        y, *LinearForward(OnDevice(ref_, x), w_ref, OnDevice(ref_, bias), OnDevice(ref_, residual)),
        tolerance);
    Tolerance of_grad = tolerance;
    of_grad.absolute *= std::max(1.0, std::sqrt(double(c.out) / c.x[-1]));
    ExpectClose(dx, *LinearInputGrad(OnDevice(ref_, dy), w_ref, OnDevice(ref_, later)), of_grad);
  }
}

TEST_P(LinearTest, SameBitsTwiceAndWhateverTheOtherSamplesAre) {
  const Case c = {{4, 33, 48}, 72};
  const Weight w(Master(c, 1));
  const Tensor bias = RandomTensor(cpu_, {c.out}, DType::kF32, 4);
  const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2);
  const Tensor dy = RandomTensor(cpu_, OutputShape(c), dtype(), 3);
  Tensor other_x = RandomTensor(cpu_, c.x, dtype(), 7);
  Tensor other_dy = RandomTensor(cpu_, OutputShape(c), dtype(), 8);
  other_x.Slice(1, 2).CopyFrom(x.Slice(1, 2));
  other_dy.Slice(1, 2).CopyFrom(dy.Slice(1, 2));

  const Tensor y = *LinearForward(x, w, bias), dx = *LinearInputGrad(dy, w);
  ExpectSameBits(*LinearForward(x, w, bias), y);
  ExpectSameBits(*LinearInputGrad(dy, w), dx);
  ExpectSameBits(LinearForward(other_x, w, bias)->Slice(1, 2), y.Slice(1, 2));
  ExpectSameBits(LinearInputGrad(other_dy, w)->Slice(1, 2), dx.Slice(1, 2));
  Tensor dw[2];
  for (Tensor& sum : dw) {
    sum = Tensor::Zeros(cpu_, w.shape(), DType::kF32);
    ASSERT_TRUE(LinearWeightGrad(x, dy, &sum, nullptr).ok());
  }
  ExpectSameBits(dw[0], dw[1]);
}

// Frozen work is computed for several samples at a time in training, and one by one for the offline
// cache. The results must be the same.
TEST_P(LinearTest, SameBitsInABatchAndAlone) {
  std::vector<Case> cases = {{{7, 1, 64}, 256},
                             {{5, 11, 48}, 72},
                             {{3, 77, 40}, 24},
                             {{4, 33, 65}, 31},
                             {{2, 129, 96}, 200}};
  // A weight that is too large to be packed.
  if (onednn::NeedsFixedOrder()) cases.push_back({{3, 77, 512}, 520});
  for (const Case& c : cases) {
    SCOPED_TRACE(c.x.ToString());
    const Weight w(Master(c, 1));
    const Tensor bias = RandomTensor(cpu_, {c.out}, DType::kF32, 4);
    const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2);
    const Tensor dy = RandomTensor(cpu_, OutputShape(c), dtype(), 3);
    const Tensor y = *LinearForward(x, w, bias), dx = *LinearInputGrad(dy, w);
    for (int64_t n = 0; n < c.x[0]; ++n) {
      ExpectSameBits(*LinearForward(x.Slice(n, n + 1), w, bias), y.Slice(n, n + 1));
      ExpectSameBits(*LinearInputGrad(dy.Slice(n, n + 1), w), dx.Slice(n, n + 1));
    }
  }
}

TEST_P(LinearTest, SeveralThreadsAgreeWithOneAndWithThemselves) {
  const Case c = {{700, 96}, 200};
  const auto several = Device::Cpu(std::vector<int>(3, AllowedCores()[0]));
  const Weight w(Master(c, 1));
  const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2);
  const Tensor dy = RandomTensor(cpu_, OutputShape(c), dtype(), 3);
  const Tensor y = *LinearForward(x, w, Tensor());
  Tensor dw = Tensor::Zeros(cpu_, w.shape(), DType::kF32);
  ASSERT_TRUE(LinearWeightGrad(x, dy, &dw, nullptr).ok());
  // In a separate thread, which may be pinned and have a team.
  std::thread worker([&] {
    ASSERT_TRUE(several->BindThread().ok());
    const Tensor xs = OnDevice(several, x), dys = OnDevice(several, dy);
    const Tensor ys = *LinearForward(xs, w, Tensor());
    ExpectClose(ys, y, For(dtype()));
    ExpectSameBits(*LinearForward(xs, w, Tensor()), ys);
    Tensor dws[2];
    for (Tensor& sum : dws) {
      sum = Tensor::Zeros(several, w.shape(), DType::kF32);
      ASSERT_TRUE(LinearWeightGrad(xs, dys, &sum, nullptr).ok());
    }
    ExpectClose(dws[0], dw, kWeightGrad);
    ExpectSameBits(dws[0], dws[1]);
  });
  worker.join();
}

TEST_P(LinearTest, FollowsTheMasterAfterAnUpdate) {
  const Case c = {{2, 8}, 16};
  const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2);
  const Tensor dy = RandomTensor(cpu_, OutputShape(c), dtype(), 3);
  Tensor master = Master(c, 1);
  Weight w(master);
  ASSERT_TRUE(LinearForward(x, w, Tensor()).ok());
  ASSERT_TRUE(LinearInputGrad(dy, w).ok());
  master.CopyFrom(Master(c, 9));
  w.MarkUpdated();
  const Weight fresh(Master(c, 9));
  ExpectSameBits(*LinearForward(x, w, Tensor()), *LinearForward(x, fresh, Tensor()));
  ExpectSameBits(*LinearInputGrad(dy, w), *LinearInputGrad(dy, fresh));
}

INSTANTIATE_TEST_SUITE_P(DTypes, LinearTest, ::testing::ValuesIn(DTypesAndChoices()), ChoiceName);

TEST(LinearReferenceTest, ByHand) {
  const auto ref = Device::CpuReference();
  const Weight w(Tensor::FromHost<float>(ref, {2, 3}, {1, 2, 3, 4, 5, 6}));
  const Tensor bias = Tensor::FromHost<float>(ref, {2}, {10, 20});
  const Tensor x = Tensor::FromHost<float>(ref, {1, 3}, {1, 0, -1});
  EXPECT_EQ(Values(*LinearForward(x, w, bias)), (std::vector<double>{8, 18}));
  const Tensor residual = Tensor::FromHost<float>(ref, {1, 2}, {100, 200});
  EXPECT_EQ(Values(*LinearForward(x, w, bias, residual)), (std::vector<double>{108, 218}));
  const Tensor dy = Tensor::FromHost<float>(ref, {1, 2}, {1, -1});
  EXPECT_EQ(Values(*LinearInputGrad(dy, w)), (std::vector<double>{-3, -3, -3}));
  EXPECT_EQ(Values(*LinearInputGrad(dy, w, x)), (std::vector<double>{-2, -3, -4}));
  Tensor dw = Tensor::FromHost<float>(ref, {2, 3}, {1, 1, 1, 1, 1, 1});
  Tensor db = Tensor::FromHost<float>(ref, {2}, {5, 5});
  ASSERT_TRUE(LinearWeightGrad(x, dy, &dw, &db).ok());
  EXPECT_EQ(Values(dw), (std::vector<double>{2, 1, 0, 0, 1, 2}));
  EXPECT_EQ(Values(db), (std::vector<double>{6, 4}));
}

TEST(LinearReferenceTest, GradientsAgreeWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  const Tensor x = RandomTensor(ref, {3, 5}, DType::kF32, 1);
  const Tensor dy = RandomTensor(ref, {3, 4}, DType::kF32, 2);
  const Tensor master = RandomTensor(ref, {4, 5}, DType::kF32, 3);
  const Tensor bias = RandomTensor(ref, {4}, DType::kF32, 4);
  const Weight w(master);
  Tensor dw = Tensor::Zeros(ref, {4, 5}, DType::kF32), db = Tensor::Zeros(ref, {4}, DType::kF32);
  ASSERT_TRUE(LinearWeightGrad(x, dy, &dw, &db).ok());
  ExpectGradient([&](const Tensor& t) { return Dot(dy, *LinearForward(t, w, bias)); }, x,
                 *LinearInputGrad(dy, w));
  ExpectGradient([&](const Tensor& t) { return Dot(dy, *LinearForward(x, Weight(t), bias)); },
                 master, dw);
  ExpectGradient([&](const Tensor& t) { return Dot(dy, *LinearForward(x, w, t)); }, bias, db);
}

}  // namespace
}  // namespace dpipe::ops
