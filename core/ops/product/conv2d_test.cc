#include "core/ops/product/conv2d.h"

#include <thread>

#include "core/base/host/usable_cpus.h"
#include "core/ops/elementwise/elementwise.h"
#include "core/ops/testing/bf16_choice_test_base.h"

namespace dpipe::ops {
namespace {

struct Case {
  Conv2dParams params;
  Shape x;  // [N, H, W, I]
  Shape w;  // [O, I, R, S]
};

const Case kCases[] = {
    {Conv2dSymmetric(1, 1), {2, 6, 6, 16}, {32, 16, 3, 3}},  // a resnet's
    {Conv2dSymmetric(1, 1), {1, 5, 7, 3}, {20, 3, 3, 3}},    // input of an image
    {Conv2dSymmetric(1, 1), {2, 8, 8, 32}, {4, 32, 3, 3}},   // output of latents
    {Conv2dSymmetric(2, 1), {2, 8, 8, 24}, {24, 24, 3, 3}},  // a U-Net's down-sampling
    {{2, 0, 1, 0, 1}, {2, 8, 6, 16}, {16, 16, 3, 3}},  // a VAE's: padded at the bottom and on the
                                                       // right only
    {{2, 1, 0, 0, 1}, {1, 9, 9, 5}, {7, 5, 3, 3}},     // odd sizes
    {Conv2dSymmetric(1, 0), {2, 4, 5, 12}, {18, 12, 1, 1}},     // pointwise
    {Conv2dSymmetric(2, 0), {2, 5, 5, 6}, {8, 6, 1, 1}},        // pointwise with a stride
    {Conv2dSymmetric(3, 2), {1, 11, 10, 4}, {6, 4, 5, 4}},      // rows and columns left over
    {Conv2dSymmetric(1, 0), {3, 3, 3, 2}, {1, 2, 3, 3}},        // one output pixel
    {Conv2dSymmetric(1, 1), {1, 2, 2, 256}, {256, 256, 3, 3}},  // by products with the master
};

double FanIn(const Case& c) { return static_cast<double>(c.w[1] * c.w[2] * c.w[3]); }

// Inputs are standard normal and weights scaled by 1/sqrt(fan-in). Outputs are therefore of order 1
// and errors those of fp32 sums of a few hundred products: 1e-5. bf16: one more rounding, after
// which results near a boundary may be adjacent numbers, up to 2^-7 apart relatively.
Tolerance For(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{1e-5, 1e-5} : Tolerance{1.0 / 128, 1e-4};
}
// Sums over all pixels, in fp32 for all operand types.
constexpr Tolerance kWeightGrad = {1e-5, 1e-4};

class Conv2dTest : public Bf16ChoiceTest {
 protected:
  Tensor Master(const Case& c, uint64_t seed) const {
    const Tensor master =
        RandomTensor(cpu_, c.w, DType::kF32, seed, static_cast<float>(1 / std::sqrt(FanIn(c))));
    // Values that bf16 represents exactly, because not every backend rounds them.
    return dtype() == DType::kF32 ? master : master.To(DType::kBf16).To(DType::kF32);
  }
  Tensor OutputGrad(const Case& c, uint64_t seed) const {
    return RandomTensor(cpu_, Conv2dOutputShape(c.params, c.x, c.w), dtype(), seed);
  }
};

TEST_P(Conv2dTest, CpuAgreesWithReference) {
  cpu_->allocator().set_poison(true);
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.x.ToString() + " " + c.w.ToString());
    const Weight w(Master(c, 1)), w_ref(OnDevice(ref_, w.master()));
    const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2), dy = OutputGrad(c, 3);
    const Tensor x_ref = OnDevice(ref_, x), dy_ref = OnDevice(ref_, dy);
    for (const Tensor& bias : {Tensor(), RandomTensor(cpu_, {c.w[0]}, DType::kF32, 4)}) {
      ExpectClose(*Conv2dForward(c.params, x, w, bias),
                  *Conv2dForward(c.params, x_ref, w_ref, OnDevice(ref_, bias)), For(dtype()));
    }
    ExpectClose(*Conv2dInputGrad(c.params, dy, w, c.x),
                *Conv2dInputGrad(c.params, dy_ref, w_ref, c.x), For(dtype()));

    Tensor dw = RandomTensor(cpu_, c.w, DType::kF32, 5);
    Tensor db = RandomTensor(cpu_, {c.w[0]}, DType::kF32, 6);
    Tensor dw_ref = OnDevice(ref_, dw), db_ref = OnDevice(ref_, db);
    ASSERT_TRUE(Conv2dWeightGrad(c.params, x, dy, &dw, &db).ok());
    ASSERT_TRUE(Conv2dWeightGrad(c.params, x_ref, dy_ref, &dw_ref, &db_ref).ok());
    ExpectClose(dw, dw_ref, kWeightGrad);
    ExpectClose(db, db_ref, kWeightGrad);
  }
}

// On the CPU, the bits of a separate sum. Compared with the reference, which rounds once: twice
// 2^-9 of up to 8.
TEST_P(Conv2dTest, AnAddendIsAdded) {
  const Tolerance tolerance =
      dtype() == DType::kF32 ? For(dtype()) : Tolerance{1.0 / 128, 1.0 / 32};
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.x.ToString() + " " + c.w.ToString());
    const Weight w(Master(c, 1)), w_ref(OnDevice(ref_, w.master()));
    const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2), image = OutputGrad(c, 3);
    const Tensor bias = RandomTensor(cpu_, {c.w[0]}, DType::kF32, 4);
    const Tensor channels = RandomTensor(cpu_, {c.x[0], c.w[0]}, dtype(), 5);
    const Tensor plain = *Conv2dForward(c.params, x, w, bias);
    ExpectSameBits(*Conv2dForward(c.params, x, w, bias, image), *Add(plain, image));
    // For an image of one pixel, both shapes of the addend are equivalent.
    ExpectSameBits(*Conv2dForward(c.params, x, w, bias, channels), *AddChannels(plain, channels));
    for (const Tensor& addend : {image, channels}) {
      ExpectClose(*Conv2dForward(c.params, x, w, bias, addend),
                  *Conv2dForward(c.params, OnDevice(ref_, x), w_ref, OnDevice(ref_, bias),
                                 OnDevice(ref_, addend)),
                  tolerance);
    }
  }
}

TEST_P(Conv2dTest, SameBitsTwiceAndWhateverTheOtherSamplesAre) {
  for (const Case& c : {Case{Conv2dSymmetric(1, 1), {4, 8, 8, 32}, {48, 32, 3, 3}},
                        Case{Conv2dSymmetric(2, 1), {4, 7, 7, 5}, {9, 5, 3, 3}}}) {
    const Weight w(Master(c, 1));
    const Tensor bias = RandomTensor(cpu_, {c.w[0]}, DType::kF32, 4);
    const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2), dy = OutputGrad(c, 3);
    Tensor other_x = RandomTensor(cpu_, c.x, dtype(), 7), other_dy = OutputGrad(c, 8);
    other_x.Slice(2, 3).CopyFrom(x.Slice(2, 3));
    other_dy.Slice(2, 3).CopyFrom(dy.Slice(2, 3));

    const Tensor y = *Conv2dForward(c.params, x, w, bias);
    const Tensor dx = *Conv2dInputGrad(c.params, dy, w, c.x);
    ExpectSameBits(*Conv2dForward(c.params, x, w, bias), y);
    ExpectSameBits(*Conv2dInputGrad(c.params, dy, w, c.x), dx);
    ExpectSameBits(Conv2dForward(c.params, other_x, w, bias)->Slice(2, 3), y.Slice(2, 3));
    ExpectSameBits(Conv2dInputGrad(c.params, other_dy, w, c.x)->Slice(2, 3), dx.Slice(2, 3));
    Tensor dw[2];
    for (Tensor& sum : dw) {
      sum = Tensor::Zeros(cpu_, c.w, DType::kF32);
      ASSERT_TRUE(Conv2dWeightGrad(c.params, x, dy, &sum, nullptr).ok());
    }
    ExpectSameBits(dw[0], dw[1]);
  }
}

// As in LinearTest.
TEST_P(Conv2dTest, SameBitsInABatchAndAlone) {
  for (Case c : kCases) {
    if (c.w[1] >= 256 && !onednn::NeedsFixedOrder()) continue;  // by products with the master
    c.x.Set(0, 5);
    SCOPED_TRACE(c.x.ToString() + " " + c.w.ToString());
    const Weight w(Master(c, 1));
    const Tensor bias = RandomTensor(cpu_, {c.w[0]}, DType::kF32, 4);
    const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2), dy = OutputGrad(c, 3);
    const Tensor y = *Conv2dForward(c.params, x, w, bias);
    const Tensor dx = *Conv2dInputGrad(c.params, dy, w, c.x);
    Shape one = c.x;
    one.Set(0, 1);
    for (int64_t n = 0; n < c.x[0]; ++n) {
      ExpectSameBits(*Conv2dForward(c.params, x.Slice(n, n + 1), w, bias), y.Slice(n, n + 1));
      ExpectSameBits(*Conv2dInputGrad(c.params, dy.Slice(n, n + 1), w, one), dx.Slice(n, n + 1));
    }
  }
}

TEST_P(Conv2dTest, SeveralThreadsAgreeWithOneAndWithThemselves) {
  const Case c = {Conv2dSymmetric(1, 1), {4, 12, 12, 32}, {48, 32, 3, 3}};
  const auto several = Device::Cpu(std::vector<int>(3, AllowedCores()[0]));
  const Weight w(Master(c, 1));
  const Tensor x = RandomTensor(cpu_, c.x, dtype(), 2), dy = OutputGrad(c, 3);
  const Tensor y = *Conv2dForward(c.params, x, w, Tensor());
  Tensor dw = Tensor::Zeros(cpu_, c.w, DType::kF32);
  ASSERT_TRUE(Conv2dWeightGrad(c.params, x, dy, &dw, nullptr).ok());
  // In a separate thread, which may be pinned and have a team.
  std::thread worker([&] {
    ASSERT_TRUE(several->BindThread().ok());
    const Tensor xs = OnDevice(several, x), dys = OnDevice(several, dy);
    const Tensor ys = *Conv2dForward(c.params, xs, w, Tensor());
    ExpectClose(ys, y, For(dtype()));
    ExpectSameBits(*Conv2dForward(c.params, xs, w, Tensor()), ys);
    Tensor dws[2];
    for (Tensor& sum : dws) {
      sum = Tensor::Zeros(several, c.w, DType::kF32);
      ASSERT_TRUE(Conv2dWeightGrad(c.params, xs, dys, &sum, nullptr).ok());
    }
    ExpectClose(dws[0], dw, kWeightGrad);
    ExpectSameBits(dws[0], dws[1]);
  });
  worker.join();
}

// One cached primitive serves several weights, and a weight several batch sizes.
TEST_P(Conv2dTest, WeightsAndBatchesDoNotMix) {
  const Case c = {Conv2dSymmetric(1, 1), {2, 6, 6, 20}, {12, 20, 3, 3}};
  Tensor master = Master(c, 1);
  Weight a(master), b(Master(c, 2));
  const Tensor x = RandomTensor(cpu_, c.x, dtype(), 3);
  const Tensor ya = *Conv2dForward(c.params, x, a, Tensor());
  const Tensor yb = *Conv2dForward(c.params, x, b, Tensor());
  ExpectSameBits(*Conv2dForward(c.params, x, a, Tensor()), ya);
  ExpectClose(*Conv2dForward(c.params, x.Slice(0, 1), a, Tensor()), ya.Slice(0, 1), For(dtype()));
  master.CopyFrom(b.master());
  a.MarkUpdated();
  ExpectSameBits(*Conv2dForward(c.params, x, a, Tensor()), yb);
}

INSTANTIATE_TEST_SUITE_P(DTypes, Conv2dTest, ::testing::ValuesIn(DTypesAndChoices()), ChoiceName);

TEST(Conv2dReferenceTest, ByHand) {
  const auto ref = Device::CpuReference();
  // One channel; a 2x2 kernel over [[1, 2], [3, 4]] with a column of zeros on the right.
  const Conv2dParams params = {1, 0, 0, 0, 1};
  const Weight w(Tensor::FromHost<float>(ref, {1, 1, 2, 2}, {1, 10, 100, 1000}));
  const Tensor x = Tensor::FromHost<float>(ref, {1, 2, 2, 1}, {1, 2, 3, 4});
  const Tensor bias = Tensor::FromHost<float>(ref, {1}, {0.5});
  const Tensor y = *Conv2dForward(params, x, w, bias);
  EXPECT_EQ(y.shape(), (Shape{1, 1, 2, 1}));
  EXPECT_EQ(Values(y), (std::vector<double>{4321.5, 402.5}));
  const Tensor dy = Tensor::FromHost<float>(ref, {1, 1, 2, 1}, {1, 2});
  EXPECT_EQ(Values(*Conv2dInputGrad(params, dy, w, x.shape())),
            (std::vector<double>{1, 12, 100, 1200}));
  Tensor dw = Tensor::FromHost<float>(ref, {1, 1, 2, 2}, {7, 0, 0, 0});
  Tensor db = Tensor::FromHost<float>(ref, {1}, {1});
  ASSERT_TRUE(Conv2dWeightGrad(params, x, dy, &dw, &db).ok());
  EXPECT_EQ(Values(dw), (std::vector<double>{7 + 5, 2, 11, 4}));
  EXPECT_EQ(Values(db), (std::vector<double>{4}));
}

TEST(Conv2dReferenceTest, GradientsAgreeWithFiniteDifferences) {
  const auto ref = Device::CpuReference();
  for (const Case& c : {Case{Conv2dSymmetric(1, 1), {2, 4, 3, 2}, {3, 2, 3, 3}},
                        Case{{2, 0, 1, 0, 1}, {1, 4, 6, 3}, {2, 3, 3, 3}}}) {
    const Tensor x = RandomTensor(ref, c.x, DType::kF32, 1);
    const Tensor master = RandomTensor(ref, c.w, DType::kF32, 3, 0.3f);
    const Tensor bias = RandomTensor(ref, {c.w[0]}, DType::kF32, 4);
    const Weight w(master);
    const Tensor dy = RandomTensor(ref, Conv2dOutputShape(c.params, c.x, c.w), DType::kF32, 2);
    Tensor dw = Tensor::Zeros(ref, c.w, DType::kF32);
    Tensor db = Tensor::Zeros(ref, {c.w[0]}, DType::kF32);
    ASSERT_TRUE(Conv2dWeightGrad(c.params, x, dy, &dw, &db).ok());
    const auto forward = [&](const Tensor& image, const Tensor& weight, const Tensor& b) {
      return Dot(dy, *Conv2dForward(c.params, image, Weight(weight), b));
    };
    ExpectGradient([&](const Tensor& t) { return forward(t, master, bias); }, x,
                   *Conv2dInputGrad(c.params, dy, w, c.x));
    ExpectGradient([&](const Tensor& t) { return forward(x, t, bias); }, master, dw);
    ExpectGradient([&](const Tensor& t) { return forward(x, master, t); }, bias, db);
  }
}

}  // namespace
}  // namespace dpipe::ops
