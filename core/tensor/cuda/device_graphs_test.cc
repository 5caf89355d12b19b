#include "core/tensor/device_graphs.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/tensor.h"
#include "core/tensor/testing/host_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DeviceGraphsTest : public ::testing::Test {
 protected:
  Tensor Floats(const std::vector<float>& values) {
    return Tensor::FromHost<float>(device_, {static_cast<int64_t>(values.size())}, values);
  }
  // Returns `from` + `term`, computed through an intermediate copy.
  Tensor Sum(const Tensor& from, const Tensor& term) {
    const Tensor first = from.Clone();
    Tensor sum = first.Clone();
    device_->Accumulate(sum.raw_data(), term.raw_data(), sum.num_elements());
    return sum;
  }
  std::string Failure(const std::function<absl::Status()>& work) {
    return std::string(device_->graphs()->Record(1 << 20, work).status().message());
  }
  int64_t allocated_bytes() { return device_->allocator().stats().allocated_bytes; }

  FakeDriver driver_{5};
  const std::shared_ptr<Device> device_ = (*CreateCudaDevices(&driver_, 1))[0];
  const std::shared_ptr<Device> peer_ = device_->MakeSibling();
};

TEST_F(DeviceGraphsTest, LaunchesGiveSameResultAsWork) {
  Tensor from = Floats({1, 2}), term = Floats({10, 20});
  Tensor sum;
  const int64_t room = device_->graphs()->MeasureMemory([&] { sum = Sum(from, term); });
  EXPECT_EQ(HostValues(sum), (std::vector<float>{11, 22}));
  EXPECT_EQ(room, 2 * 512);
  const int64_t before = allocated_bytes();
  auto graph = device_->graphs()->Record(room, [&] {
    sum = Sum(from, term);
    return absl::OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_FALSE(device_->graphs()->recording());
  EXPECT_EQ(allocated_bytes() - before, room - 512);  // the first sum was freed
  (*graph)->Launch();
  EXPECT_EQ(HostValues(sum), (std::vector<float>{11, 22}));
  from.CopyFrom(Floats({100, 200}));
  (*graph)->Launch();
  (*graph)->Launch();
  EXPECT_EQ(HostValues(sum), (std::vector<float>{110, 220}));
  // A tensor keeps the memory of a destroyed graph alive.
  *graph = nullptr;
  EXPECT_EQ(HostValues(sum), (std::vector<float>{110, 220}));
  EXPECT_EQ(allocated_bytes() - before, room - 512);
  sum = Tensor();
  EXPECT_EQ(allocated_bytes() - before, -512);
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

TEST_F(DeviceGraphsTest, PoisonIsRecorded) {
  device_->allocator().set_poison(true);
  Tensor made;
  auto graph = device_->graphs()->Record(512, [&] {
    made = Tensor::Empty(device_, {1}, DType::kI32);
    return absl::OkStatus();
  });
  ASSERT_TRUE(graph.ok()) << graph.status();
  (*graph)->Launch();
  EXPECT_EQ(made.ToHost().data<int32_t>()[0], -1);
}

TEST_F(DeviceGraphsTest, FailedRecordingsLeaveDeviceUsable) {
  const Tensor from = Floats({1, 2});
  const Tensor theirs = Tensor::FromHost<float>(peer_, {2}, std::vector<float>{5, 6});
  const auto event = peer_->RecordEvent();
  const int64_t before = allocated_bytes();
  EXPECT_THAT(Failure([&] { return Floats({1}), absl::OkStatus(); }), HasSubstr("from the host"));
  EXPECT_THAT(Failure([&] { return HostValues(from), absl::OkStatus(); }),
              HasSubstr("to the host"));
  EXPECT_THAT(Failure([&] { return theirs.CopyTo(device_), absl::OkStatus(); }),
              HasSubstr("another device"));
  EXPECT_THAT(Failure([&] { return device_->WaitFor(*event), absl::OkStatus(); }),
              HasSubstr("for an event"));
  EXPECT_THAT(Failure([&] { return device_->RecordEvent(), absl::OkStatus(); }),
              HasSubstr("an event cannot"));
  EXPECT_THAT(Failure([&] { return device_->Synchronize().IgnoreError(), absl::OkStatus(); }),
              HasSubstr("waiting for the device"));
  EXPECT_THAT(Failure([&] { return absl::InternalError("no plan"); }), "no plan");
  EXPECT_THAT(Failure([&] {
                driver_.FailNext("Copy");
                return from.Clone(), absl::OkStatus();
              }),
              "Copy: injected failure");
  driver_.FailNext("EndCapture");
  EXPECT_THAT(Failure([&] { return absl::OkStatus(); }), "EndCapture: injected failure");
  driver_.FailNext("BeginCapture");
  EXPECT_THAT(Failure([&] { return absl::OkStatus(); }), "BeginCapture: injected failure");
  EXPECT_EQ(allocated_bytes(), before);
  EXPECT_EQ(HostValues(from.Clone()), (std::vector<float>{1, 2}));
  EXPECT_TRUE(device_->Synchronize().ok());
  EXPECT_TRUE(device_->graphs()->Record(512, [] { return absl::OkStatus(); }).ok());
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

TEST_F(DeviceGraphsTest, ExceedingMeasuredMemoryIsAnError) {
  const Tensor from = Floats({1, 2});
  Tensor a, b;
  const auto graph = device_->graphs()->Record(1, [&] {
    a = from.Clone();
    b = a.Clone();
    return absl::OkStatus();
  });
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(graph.status().message(), AllOf(HasSubstr("1.0 KiB"), HasSubstr("512 B")));
  a = b = Tensor();
  EXPECT_EQ(allocated_bytes(), 512);
  EXPECT_TRUE(device_->Synchronize().ok());
}

// Regardless of later errors, and of how much memory is missing.
TEST_F(DeviceGraphsTest, LackOfMemoryIsTheReportedError) {
  device_->allocator().set_poison(true);
  const Tensor none;
  Tensor a, b, c, again;
  const int64_t before = allocated_bytes();
  EXPECT_THAT(Failure([&] {
                a = Tensor::Zeros(device_, {1 << 17}, DType::kF32);
                b = Tensor::Zeros(device_, {1 << 19}, DType::kF32);
                a = none;
                c = Tensor::Zeros(device_, {1 << 18}, DType::kF32);
                again = Tensor::Zeros(device_, {1 << 17}, DType::kF32);
                return absl::InternalError("no plan");
              }),
              "needs at least 2.5 MiB of memory, but was measured to need 1.0 MiB");
  EXPECT_EQ(allocated_bytes() - before, 1 << 20) << "tensors keep the room";
  b = c = Tensor();
  EXPECT_EQ(allocated_bytes() - before, 1 << 20);
  again = Tensor();
  EXPECT_EQ(allocated_bytes(), before);
  EXPECT_EQ(HostValues(Floats({1, 2}).Clone()), (std::vector<float>{1, 2}));
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

TEST_F(DeviceGraphsTest, NoMemoryForRecordingIsAnError) {
  driver_.set_memory_limit(1 << 20);
  const auto graph = device_->graphs()->Record(2 << 20, [] { return absl::OkStatus(); });
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(graph.status().message(), HasSubstr("cannot allocate another 2.0 MiB"));
  EXPECT_FALSE(device_->graphs()->recording());
  EXPECT_EQ(HostValues(Floats({1, 2})), (std::vector<float>{1, 2}));
}

// The other device neither waits for the recording nor spoils it.
TEST_F(DeviceGraphsTest, OtherDevicesReuseCachedMemoryDuringRecording) {
  const Tensor from = Floats({1, 2});
  { const Tensor gone = Tensor::Zeros(device_, {1 << 18}, DType::kF32); }
  Tensor made;
  const auto recorded = device_->graphs()->Record(1 << 10, [&] {
    driver_.set_memory_limit(3 << 19);
    std::thread([&] {
      const Tensor theirs = Tensor::Zeros(peer_, {1 << 18}, DType::kF32);
      EXPECT_TRUE(peer_->Synchronize().ok());
    }).join();
    made = from.Clone();
    return absl::OkStatus();
  });
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  (*recorded)->Launch();
  EXPECT_EQ(HostValues(made), (std::vector<float>{1, 2}));
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

// Other threads may free and copy tensors of the device at any time.
TEST_F(DeviceGraphsTest, OtherThreadsMayUseDeviceDuringRecording) {
  const Tensor shared = Floats({1, 2});
  auto borrowed = std::make_unique<Tensor>(Floats({3, 4}).ViewOn(peer_));
  std::thread copier;
  Tensor copy;
  const auto recorded = device_->graphs()->Record(1 << 20, [&] {
    copier = std::thread([&] { copy = shared.CopyTo(peer_); });
    std::thread([&] { borrowed.reset(); }).join();
    std::thread([&] { driver_.RunAll(); }).join();
    Tensor made = Tensor::Zeros(device_, {4}, DType::kF32);
    return absl::OkStatus();
  });
  ASSERT_TRUE(recorded.ok()) << recorded.status();
  copier.join();
  EXPECT_EQ(HostValues(copy), (std::vector<float>{1, 2}));
  (*recorded)->Launch();
  ASSERT_TRUE(device_->Synchronize().ok());
  EXPECT_THAT(driver_.violations(), IsEmpty());
}

}  // namespace
}  // namespace dpipe::cuda
