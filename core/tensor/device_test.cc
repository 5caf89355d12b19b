#include "core/tensor/device.h"

#include <string>
#include <vector>

#include "core/tensor/cpu_device.h"
#include "core/tensor/tensor.h"
#include "core/tensor/testing/host_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;

// A device whose memory pretends to be unreachable for the host; records its calls.
class FarDevice : public CpuDevice {
 public:
  explicit FarDevice(DeviceKind kind) : CpuDevice(kind, "far", {}, 1) {}

  bool has_host_memory() const override { return false; }
  void CopyFromHost(void* to, const void* host, int64_t size_bytes) override {
    calls.push_back("from host");
    CpuDevice::CopyFromHost(to, host, size_bytes);
  }
  void CopyToHost(void* host, const void* from, int64_t size_bytes) override {
    calls.push_back("to host");
    CpuDevice::CopyToHost(host, from, size_bytes);
  }
  void CopyFromPeer(void* to, Device& peer, const void* from, int64_t size_bytes) override {
    calls.push_back(&peer == this ? "within" : "from peer");
    CpuDevice::CopyFromPeer(to, peer, from, size_bytes);
  }
  void ReleaseBorrowed(absl::Span<const BorrowedBlock> blocks) override {
    calls.push_back("give back " + std::to_string(blocks.size()));
  }

  std::vector<std::string> calls;
};

const std::vector<float> kValues = {1, 2, 3, 4, 5, 6};

TEST(DeviceTest, TensorsGoToADeviceAndBack) {
  const auto far = std::make_shared<FarDevice>(DeviceKind::kCuda);
  const Tensor there = Tensor::FromHost<float>(far, {3, 2}, kValues);
  EXPECT_EQ(HostValues(there), kValues);
  EXPECT_EQ(HostValues(there.Slice(1, 2)), (std::vector<float>{3, 4}));
  EXPECT_THAT(far->calls, ElementsAre("from host", "to host", "to host"));
  const Tensor here = Tensor::FromHost<float>(Device::Cpu(), {3, 2}, kValues);
  EXPECT_EQ(here.ToHost().raw_data(), here.raw_data()) << "host tensors are not copied";
}

TEST(DeviceTest, CopiesTakeTheShortestPath) {
  const auto a = std::make_shared<FarDevice>(DeviceKind::kCuda);
  const auto b = std::make_shared<FarDevice>(DeviceKind::kCuda);
  const auto other_kind = std::make_shared<FarDevice>(DeviceKind::kCpuReference);
  const Tensor t = Tensor::FromHost<float>(a, {3, 2}, kValues);
  a->calls.clear();
  EXPECT_EQ(HostValues(t.Clone()), kValues);
  EXPECT_THAT(a->calls, ElementsAre("within", "to host"));
  EXPECT_EQ(HostValues(t.CopyTo(b)), kValues);
  EXPECT_THAT(b->calls, ElementsAre("from peer", "to host"));
  a->calls.clear();
  EXPECT_EQ(HostValues(t.CopyTo(other_kind)), kValues);
  EXPECT_THAT(a->calls, ElementsAre("to host"));
  EXPECT_THAT(other_kind->calls, ElementsAre("from host", "to host"));
}

TEST(DeviceTest, BorrowerReleasesBorrowedStorage) {
  const auto owner = std::make_shared<FarDevice>(DeviceKind::kCuda);
  const auto borrower = std::make_shared<FarDevice>(DeviceKind::kCuda);
  {
    const Tensor t = Tensor::FromHost<float>(owner, {3, 2}, kValues);
    const Tensor borrowed = t.ViewOn(borrower);
    const Tensor part = borrowed.Slice(0, 1);
    EXPECT_EQ(borrowed.raw_data(), t.raw_data());
    EXPECT_TRUE(borrower->calls.empty());
  }
  EXPECT_THAT(borrower->calls, ElementsAre("give back 1"));
  EXPECT_EQ(owner->allocator().stats().allocated_bytes, 0);
}

TEST(DeviceTest, StorageBorrowedTogetherIsReleasedTogether) {
  const auto owner = std::make_shared<FarDevice>(DeviceKind::kCuda);
  const auto borrower = std::make_shared<FarDevice>(DeviceKind::kCuda);
  std::vector<Tensor> borrowed;
  {
    std::vector<Tensor> tensors(3);
    for (Tensor& t : tensors) t = Tensor::FromHost<float>(owner, {3, 2}, kValues);
    borrowed = Tensor::ViewsOn(tensors, borrower);
    EXPECT_EQ(borrowed[2].raw_data(), tensors[2].raw_data());
    EXPECT_EQ(borrowed[2].device(), borrower);
  }
  borrowed.resize(1);
  EXPECT_TRUE(borrower->calls.empty());
  EXPECT_GT(owner->allocator().stats().allocated_bytes, 0);
  borrowed.clear();
  EXPECT_THAT(borrower->calls, ElementsAre("give back 3"));
  EXPECT_EQ(owner->allocator().stats().allocated_bytes, 0);
}

TEST(DeviceTest, CpuEventsAreDoneAtOnce) {
  const auto cpu = Device::Cpu();
  const Nanos before = MonotonicNow();
  const auto event = cpu->RecordEvent();
  EXPECT_TRUE(event->done());
  EXPECT_GE(event->time_ns(), before);
  EXPECT_LE(event->time_ns(), MonotonicNow());
  const Tensor sum = Tensor::FromHost<float>(cpu, {6}, kValues);
  cpu->Accumulate(sum.raw_data(), sum.raw_data(), 6);
  EXPECT_EQ(HostValues(sum), (std::vector<float>{2, 4, 6, 8, 10, 12}));
}

// Huge pages are 2 MiB.
TEST(DeviceTest, LargeCpuBlocksAreAlignedToHugePages) {
  constexpr int64_t kMiB = 1 << 20;
  for (const int64_t size : {2 * kMiB - 1, 3 * kMiB, 33 * kMiB + 5}) {
    const auto cpu = Device::Cpu();
    char* const block = static_cast<char*>(cpu->allocator().Allocate(size));
    EXPECT_EQ(reinterpret_cast<intptr_t>(block) % (2 * kMiB), 0) << size;
    block[0] = block[size - 1] = 1;
    cpu->allocator().Free(block, size);
    cpu->allocator().ReleaseCache();
    EXPECT_EQ(cpu->allocator().stats().reserved_bytes, 0);
  }
}

TEST(DeviceTest, ConversionRunsOnTheDevice) {
  const auto far = std::make_shared<FarDevice>(DeviceKind::kCuda);
  const Tensor t = Tensor::FromHost<float>(far, {6}, kValues);
  EXPECT_EQ(HostValues(t.To(DType::kBf16).To(DType::kF32)), kValues);
}

TEST(DeviceTest, NotesAreKeptOnce) {
  const auto device = Device::Cpu();
  EXPECT_THAT(device->notes(), ElementsAre());
  device->Note("a product is slow");
  device->Note("attention is slow");
  device->Note("a product is slow");
  EXPECT_THAT(device->notes(), ElementsAre("a product is slow", "attention is slow"));
}

}  // namespace
}  // namespace dpipe
