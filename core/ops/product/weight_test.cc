#include "core/ops/product/weight.h"

#include <atomic>
#include <thread>

#include "core/ops/testing/op_testing.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"

namespace dpipe::ops {
namespace {

TEST(WeightTest, PlainFormsFollowTheMaster) {
  const auto cpu = Device::Cpu();
  Tensor master = Tensor::FromHost<float>(cpu, {2}, {1.0f, 1.0f + 1.0f / 512});
  Weight w(master);
  EXPECT_EQ(w.As(DType::kF32).raw_data(), master.raw_data());
  EXPECT_EQ(Values(w.As(DType::kBf16)), (std::vector<double>{1, 1}));  // a tie, rounded to even
  EXPECT_EQ(w.As(DType::kBf16).raw_data(), w.As(DType::kBf16).raw_data());
  EXPECT_EQ(w.prepared_bytes(), 4);
  master.data<float>()[0] = 3;
  w.MarkUpdated();
  EXPECT_EQ(w.prepared_bytes(), 0);
  EXPECT_EQ(Values(w.As(DType::kBf16)), (std::vector<double>{3, 1}));
}

TEST(WeightTest, AFailedPreparationIsReportedAndNotCached) {
  const Weight w(Tensor::Zeros(Device::Cpu(), {4}, DType::kF32));
  const auto fail = [](const Tensor&) -> absl::StatusOr<Tensor> {
    return absl::InternalError("no such layout");
  };
  EXPECT_EQ(w.Prepared(20, fail).status().message(), "no such layout");
  EXPECT_TRUE(w.Prepared(20, [](const Tensor& m) -> absl::StatusOr<Tensor> { return m; }).ok());
}

TEST(WeightTest, KeptFormsAreMadeAnewWhereTheyLie) {
  const auto cpu = Device::Cpu();
  Tensor master = Tensor::FromHost<float>(cpu, {2}, {1, 2});
  Weight w(master);
  const Tensor dropped = w.As(DType::kBf16);
  w.KeepForms();
  EXPECT_EQ(w.prepared_bytes(), 0);
  const Tensor kept = w.As(DType::kBf16);
  EXPECT_NE(kept.raw_data(), dropped.raw_data());
  for (float value : {3.0f, 4.0f}) {
    master.data<float>()[0] = value;
    w.MarkUpdated();
    EXPECT_EQ(w.prepared_bytes(), 4);
    EXPECT_EQ(Values(kept)[0], value == 3 ? 1 : 3);  // not requested yet
    // On demand, or ahead of time.
    if (value == 3) {
      EXPECT_EQ(w.As(DType::kBf16).raw_data(), kept.raw_data());
    } else {
      EXPECT_TRUE(w.RefreshForms().ok());
    }
    EXPECT_EQ(Values(kept), (std::vector<double>{value, 2}));
  }
}

TEST(WeightTest, NoFormIsMadeWhileWorkIsRecorded) {
  dpipe::cuda::FakeDriver driver;
  const auto device = (*dpipe::cuda::CreateCudaDevices(&driver, 1))[0];
  const Tensor master = Tensor::FromHost<float>(device, {2}, {1, 2});
  Weight w(master);
  w.KeepForms();
  const auto record = [&] {
    return device->graphs()->Record(1 << 12, [&] { return w.As(DType::kBf16), absl::OkStatus(); });
  };
  EXPECT_EQ(record().status().message(), "a form of a weight [2] is not prepared");
  w.As(DType::kBf16);
  EXPECT_TRUE(record().ok());
  w.MarkUpdated();
  EXPECT_FALSE(record().ok());
  EXPECT_TRUE(w.RefreshForms().ok());
  EXPECT_TRUE(record().ok());
}

TEST(WeightTest, ConcurrentReadersShareOnePreparation) {
  const Weight w(RandomTensor(Device::Cpu(), {1000}, DType::kF32, 1));
  std::atomic<int> preparations{0};
  std::vector<const void*> seen(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&, i] {
      const Tensor form = *w.Prepared(17, [&](const Tensor& master) -> absl::StatusOr<Tensor> {
        ++preparations;
        return master.Clone();
      });
      seen[i] = form.raw_data();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(preparations, 1);
  for (const void* data : seen) EXPECT_EQ(data, seen[0]);
}

}  // namespace
}  // namespace dpipe::ops
