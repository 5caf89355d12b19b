#include "core/ops/cuda/parity.h"
#include "core/ops/optimizer/optimizer.h"

namespace dpipe::ops::cuda {
namespace {

class OptimizerParityTest : public ParityTest {
 protected:
  // For each gradient, returns a parameter, m and the root of v after two steps on a device.
  static Tensors TwoInt8Steps(const std::shared_ptr<Device>& device, const Tensors& grads,
                              int block_size);
};

OptimizerParityTest::Tensors OptimizerParityTest::TwoInt8Steps(
    const std::shared_ptr<Device>& device, const Tensors& grads, int block_size) {
  std::vector<BlockQuantized> moments;
  moments.reserve(2 * grads.size());
  std::vector<AdamWInt8Update> updates;
  for (const Tensor& grad : grads) {
    for (const auto sign : {BlockQuantized::Sign::kSigned, BlockQuantized::Sign::kUnsigned}) {
      moments.emplace_back(device, grad.num_elements(), block_size, sign);
    }
    AdamWInt8Update update = {{},
                              OnDevice(device, grad),
                              OnDevice(device, grad),
                              &moments[moments.size() - 2],
                              &moments.back()};
    update.params.learning_rate = 0.1f;
    update.params.weight_decay = 0.01f * static_cast<float>(updates.size());
    updates.push_back(update);
  }
  for (const int step : {1, 2}) EXPECT_TRUE(AdamWInt8Steps(updates, step, 0.5f).ok());
  Tensors results;
  for (const AdamWInt8Update& update : updates) {
    results.push_back(update.parameter);
    for (const BlockQuantized* moment : {update.m, update.root_v}) {
      results.push_back(moment->Load(update.grad.shape()));
    }
  }
  return results;
}

TEST_P(OptimizerParityTest, AdamW) {
  for (const int64_t n : {1, 1003, 4096}) {
    const Tensors inputs = {Random({n}), Random({n}), Random({n})};
    ExpectParity(inputs, {3e-6, 1e-6}, [&](const Tensors& in) -> absl::StatusOr<Tensors> {
      Tensor p = in[1].Clone(), m = in[2].Clone(), v = in[0].Clone();
      v.FillZero();
      for (int step = 1; step <= 5; ++step) {
        DPIPE_RETURN_IF_ERROR(AdamWStep({}, step, 0.5f, in[0], &p, &m, &v));
      }
      return Tensors{p, m, v};
    });
  }
}

// 100 tensors take three launches; some are smaller than a pack, one takes several blocks.
TEST_P(OptimizerParityTest, AdamWOfManyTensors) {
  Tensors inputs;
  for (int i = 0; i < 100; ++i) inputs.push_back(Random({i == 60 ? 3000 : 1 + 7 * (i % 9)}));
  ExpectParity(inputs, {3e-6, 1e-6}, [](const Tensors& in) -> absl::StatusOr<Tensors> {
    std::vector<AdamWUpdate> updates;
    Tensors results;
    for (const Tensor& grad : in) {
      AdamWUpdate update = {{}, grad, grad.Clone(), grad.Clone(), grad.Clone()};
      update.params.weight_decay = 0.01f * static_cast<float>(updates.size());
      update.v.FillZero();
      updates.push_back(update);
      for (const Tensor& t : {update.parameter, update.m, update.v}) results.push_back(t);
    }
    DPIPE_RETURN_IF_ERROR(AdamWSteps(updates, 3, 0.5f));
    return results;
  });
}

// 300 tensors take three launches; some are empty, some take several blocks, some are unaligned.
TEST_P(OptimizerParityTest, AxpbyOfManyTensors) {
  Tensors inputs;
  for (int i = 0; i < 300; ++i) inputs.push_back(Random({i % 50 == 30 ? 3000 : 7 * (i % 9)}));
  inputs.push_back(Random({100}));
  ExpectParity(inputs, {3e-7, 5e-7}, [](const Tensors& in) -> absl::StatusOr<Tensors> {
    std::vector<AxpbyPair> pairs;
    Tensors results;
    for (const Tensor& t : in) {
      pairs.push_back({t, t.Clone()});
      results.push_back(pairs.back().y);
    }
    pairs.back() = {in.back().Slice(3, 90), results.back().Slice(5, 92)};
    DPIPE_RETURN_IF_ERROR(Axpby(-0.1f, 0.9f, pairs));
    return results;
  });
}

// Blocks of the usual size, blocks that cut packs, and blocks longer than a tensor. The second step
// uses moments quantised by the first. CPUs use the same arithmetic.
TEST_P(OptimizerParityTest, AdamWInt8OfManyTensors) {
  for (const int block_size : {256, 7, 2048}) {
    Tensors inputs;
    for (int i = 0; i < 90; ++i) {
      inputs.push_back(Random({i % 30 == 20 ? 20000 : 1 + 90 * (i % 9)}));
    }
    const Tensors expected = TwoInt8Steps(Device::Cpu(), inputs, block_size);
    const Tensors actual = TwoInt8Steps(device_, inputs, block_size);
    ASSERT_EQ(actual.size(), 3 * inputs.size());
    for (size_t i = 0; i < actual.size(); ++i) ExpectSameBits(Here(actual[i]), Here(expected[i]));
    // The result equals the reference, except for values that round to different codes.
    const Tensors plain = TwoInt8Steps(host_, inputs, block_size);
    int64_t count = 0, others = 0;
    for (size_t i = 0; i < actual.size(); ++i) {
      const std::vector<double> a = Values(Here(actual[i])), p = Values(plain[i]);
      count += static_cast<int64_t>(a.size());
      for (size_t k = 0; k < a.size(); ++k) {
        others += std::abs(a[k] - p[k]) > 1e-6 + 1e-5 * std::abs(p[k]) ? 1 : 0;
      }
    }
    EXPECT_LT(others, count / 1000) << "of " << count;
  }
}

TEST_P(OptimizerParityTest, AdamWPredict) {
  Tensors inputs;
  for (int i = 0; i < 300; ++i) inputs.push_back(Random({i % 50 == 30 ? 3000 : 7 * (i % 9)}));
  ExpectParity(inputs, {3e-6, 1e-6}, [](const Tensors& in) -> absl::StatusOr<Tensors> {
    std::vector<AdamWPrediction> predictions;
    Tensors results;
    for (const Tensor& grad : in) {
      Tensor parameter = grad.Clone(), m = grad.Clone(), v = grad.Clone();
      v.FillZero();
      DPIPE_RETURN_IF_ERROR(AdamWStep({}, 1, 1, grad, &parameter, &m, &v));
      predictions.push_back({parameter, m, v});
      results.push_back(parameter);
    }
    AdamWParams params;
    params.learning_rate = 0.1f;
    DPIPE_RETURN_IF_ERROR(AdamWPredict(params, 3, 2, predictions));
    return results;
  });
}

TEST_P(OptimizerParityTest, SumOfSquares) {
  for (const int64_t n : {1, 255, 4096, 100003}) {
    const Tensor x = Random({n});
    const double expected = *SumOfSquares(x), actual = *SumOfSquares(OnDevice(device_, x));
    // Partial sums in double of exact squares.
    EXPECT_NEAR(actual, expected, 1e-11 * expected);
  }
}

// 500 tensors take three launches; some are empty, some take several blocks. Each sum equals that
// of the tensor alone.
TEST_P(OptimizerParityTest, SumsOfSquaresOfManyTensors) {
  Tensors tensors;
  for (int i = 0; i < 500; ++i) {
    tensors.push_back(OnDevice(device_, Random({i % 50 == 30 ? 9000 : 7 * (i % 9)})));
  }
  const std::vector<double> sums = *SumsOfSquares(tensors);
  ASSERT_EQ(sums.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(sums[i], *SumOfSquares(tensors[i])) << i;
    EXPECT_NEAR(sums[i], *SumOfSquares(Here(tensors[i])), 1e-11 * sums[i]) << i;
  }
}

TEST_P(OptimizerParityTest, SumOfSquaresDoesNotOverflowFp32) {
  const Tensor x = Tensor::FromHost<float>(device_, {2}, {3e30f, 4e30f});
  EXPECT_NEAR(GlobalNorm({*SumOfSquares(x)}) / 5e30, 1, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(DTypes, OptimizerParityTest, ::testing::Values(DType::kF32));

}  // namespace
}  // namespace dpipe::ops::cuda
