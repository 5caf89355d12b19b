// Tests that results stay correct and reproducible if engines are timed on a GPU. Skipped if there
// is no GPU.
#include <algorithm>

#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "core/ops/attention/attention.h"
#include "core/ops/cuda/engine_choices.h"
#include "core/ops/product/conv2d.h"
#include "core/ops/product/linear.h"
#include "core/ops/testing/op_testing.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/system_driver.h"

namespace dpipe::ops::cuda {
namespace {

class EngineTimingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<dpipe::cuda::Driver*> driver = dpipe::cuda::SystemDriver();
    if (!driver.ok()) GTEST_SKIP() << driver.status();
    driver_ = *driver;
  }

  // Runs a convolution and a linear layer, forward and backward, on a new device.
  std::vector<Tensor> Compute() {
    const auto device = (*dpipe::cuda::CreateCudaDevices(driver_, 1))[0];
    EXPECT_TRUE(device->BindThread().ok());
    const auto there = [&](const Shape& shape, DType dtype, uint64_t seed) {
      return OnDevice(device, RandomTensor(host_, shape, dtype, seed));
    };
    const Tensor x = there({4, 32, 32, 320}, DType::kBf16, 1);
    const Weight filters(there({320, 320, 3, 3}, DType::kF32, 2));
    const Weight matrix(there({640, 320}, DType::kF32, 3));
    Tensor dfilters = Tensor::Zeros(device, {320, 320, 3, 3}, DType::kF32);
    Tensor dmatrix = Tensor::Zeros(device, {640, 320}, DType::kF32);
    const Conv2dParams params = Conv2dSymmetric(1, 1);
    const Tensor y = *Conv2dForward(params, x, filters, Tensor());
    const Tensor dx = *Conv2dInputGrad(params, y, filters, x.shape());
    EXPECT_TRUE(Conv2dWeightGrad(params, x, y, &dfilters, nullptr).ok());
    const Tensor z = *LinearForward(x, matrix, Tensor());
    EXPECT_TRUE(LinearWeightGrad(x, z, &dmatrix, nullptr).ok());
    EXPECT_TRUE(LinearWeightGrad(x, z, &dmatrix, nullptr).ok());  // accumulates
    std::vector<Tensor> here;
    for (const Tensor& t : {y, dx, dfilters, z, dmatrix}) here.push_back(OnDevice(host_, t));
    EXPECT_TRUE(device->Synchronize().ok());
    EXPECT_TRUE(device->notes().empty()) << device->notes()[0];
    return here;
  }

  const std::shared_ptr<Device> host_ = Device::Cpu();
  dpipe::cuda::Driver* driver_ = nullptr;
};

TEST_F(EngineTimingTest, FastestEngineIsReproducible) {
  const std::vector<Tensor> untimed = Compute();
  const ScratchFolder folder;
  const std::string path = folder.File("engines.json");
  ASSERT_TRUE(EngineChoices::OfProcess().Open(path, /*time_engines=*/true).ok());
  const std::vector<Tensor> timed = Compute();
  const absl::StatusOr<std::string> text = ReadFile(path);
  ASSERT_TRUE(text.ok()) << text.status();
  for (const char* part : {"a convolution of 4 samples", "gradient of its input",
                           "gradient of its filters", "a product of 4096 x 320"}) {
    EXPECT_NE(text->find(part), std::string::npos) << part << " in\n" << *text;
  }
  ASSERT_TRUE(EngineChoices::OfProcess().Open(path, /*time_engines=*/false).ok());
  const std::vector<Tensor> again = Compute();
  EXPECT_EQ(*ReadFile(path), *text);
  for (size_t i = 0; i < timed.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    ExpectSameBits(again[i], timed[i]);
    // bf16 has 8 bits of precision; its sums of 320 to 4096 products may cancel.
    const std::vector<double> values = Values(untimed[i]);
    double largest = 0;
    for (const double value : values) largest = std::max(largest, std::abs(value));
    ExpectClose(timed[i], untimed[i], {1.0 / 64, largest / 256});
  }
}

// Only dq is added in a different order; ds is up to 336 MB.
TEST_F(EngineTimingTest, AttentionGradInAnyOrderMatchesToRounding) {
  const auto grads = [&](bool deterministic) {
    EngineChoices::OfProcess().set_deterministic(deterministic);
    const auto device = (*dpipe::cuda::CreateCudaDevices(driver_, 1))[0];
    EXPECT_TRUE(device->BindThread().ok());
    const auto there = [&](uint64_t seed) {
      return OnDevice(device, RandomTensor(host_, {2, 4096, 320}, DType::kBf16, seed));
    };
    const AttentionParams params = {5, AttentionScale(320, 5)};
    const Tensor q = there(1), k = there(2), v = there(3), dy = there(4);
    const AttentionResult result = *AttentionForward(params, q, k, v);
    const AttentionGrads own = *AttentionInputGrad(params, dy, q, k, v, result.saved);
    std::vector<Tensor> here;
    for (const Tensor& t : {own.dq, own.dk, own.dv}) here.push_back(OnDevice(host_, t));
    EXPECT_TRUE(device->Synchronize().ok());
    EXPECT_TRUE(device->notes().empty()) << device->notes()[0];
    return here;
  };
  const std::vector<Tensor> in_order = grads(true), in_any = grads(false);
  EngineChoices::OfProcess().set_deterministic(true);
  for (size_t i = 0; i < in_order.size(); ++i) {
    SCOPED_TRACE("gradient " + std::to_string(i));
    double largest = 0;
    for (const double value : Values(in_order[i])) largest = std::max(largest, std::abs(value));
    ExpectClose(in_any[i], in_order[i], {1.0 / 64, largest / 64});
  }
}

}  // namespace
}  // namespace dpipe::ops::cuda
