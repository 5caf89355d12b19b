#include "core/tensor/tensor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <vector>

#include "core/base/host/usable_cpus.h"
#include "core/tensor/cpu_device.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(Bf16Test, RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(Bf16(1.0f)), 1.0f);
  EXPECT_EQ(Bf16(1.00390625f).bits, 0x3f80);  // halfway between 0x3f80 and 0x3f81: to even
  EXPECT_EQ(Bf16(1.01171875f).bits, 0x3f82);  // halfway between 0x3f81 and 0x3f82: to even
  EXPECT_EQ(Bf16(1.00390637f).bits, 0x3f81);  // just above halfway
  EXPECT_TRUE(std::isnan(static_cast<float>(Bf16(std::nanf("")))));
  EXPECT_TRUE(std::isinf(static_cast<float>(Bf16(std::numeric_limits<float>::max()))));
}

TEST(TensorTest, SlicesAndReshapesShareStorage) {
  auto device = Device::Cpu();
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const Tensor t = Tensor::FromHost<float>(device, {3, 2}, values);
  const Tensor rows = t.Slice(1, 3).Reshape({4});
  EXPECT_EQ(rows.data<float>()[0], 2);
  rows.data<float>()[0] = 7;
  EXPECT_EQ(t.data<float>()[2], 7);
  EXPECT_EQ(t.Clone().data<float>()[2], 7);
}

TEST(TensorTest, ConcatBatchJoinsRows) {
  auto device = Device::Cpu();
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const Tensor t = Tensor::FromHost<float>(device, {3, 2}, values);
  const std::vector<Tensor> parts = {t.Slice(2, 3), t.Slice(0, 2)};
  const Tensor joined = ConcatBatch(parts);
  EXPECT_EQ(joined.shape(), (Shape{3, 2}));
  EXPECT_EQ(std::vector<float>(joined.data<float>(), joined.data<float>() + 6),
            (std::vector<float>{4, 5, 0, 1, 2, 3}));
}

TEST(TensorTest, WrongElementTypeDies) {
  const Tensor t = Tensor::Zeros(Device::Cpu(), {2}, DType::kBf16);
  EXPECT_DEATH(t.data<float>(), "tensor of bf16");
  EXPECT_DEATH(t.Slice(1, 3), "rows \\[1, 3\\)");
}

TEST(AllocatorTest, CountsAndReuses) {
  auto device = Device::Cpu();
  {
    const Tensor a = Tensor::Zeros(device, {1024}, DType::kF32);
    EXPECT_EQ(device->allocator().stats().allocated_bytes, 4096);
  }
  EXPECT_EQ(device->allocator().stats().allocated_bytes, 0);
  EXPECT_EQ(device->allocator().stats().peak_bytes, 4096);
  { const Tensor b = Tensor::Zeros(device, {1024}, DType::kF32); }
  EXPECT_EQ(device->allocator().stats().reserved_bytes, 4096);
  device->allocator().ResetPeak();
  EXPECT_EQ(device->allocator().stats().peak_bytes, 0);
}

// Runs in a process whose address space has room for only one of the two blocks.
[[noreturn]] void TakeOneAfterTheOther() {
  constexpr int64_t kSize = int64_t{1} << 30;
  rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  std::ifstream statm("/proc/self/statm");
  int64_t pages = 0;
  statm >> pages;
  limit.rlim_cur = pages * sysconf(_SC_PAGESIZE) + kSize * 3 / 2;
  setrlimit(RLIMIT_AS, &limit);
  const auto device = Device::Cpu();
  Allocator& allocator = device->allocator();
  allocator.Free(allocator.Allocate(kSize), kSize);
  void* const other = allocator.Allocate(kSize - (kSize >> 3));
  std::exit(other != nullptr && allocator.stats().reserved_bytes < kSize ? 0 : 1);
}

TEST(AllocatorDeathTest, ReleasesItsCacheBeforeFailing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(TakeOneAfterTheOther(), ::testing::ExitedWithCode(0), "");
}

TEST(AllocatorTest, PoisonShowsUnwrittenMemory) {
  auto device = Device::Cpu();
  device->allocator().set_poison(true);
  EXPECT_TRUE(std::isnan(Tensor::Empty(device, {1}, DType::kF32).data<float>()[0]));
}

TEST(DeviceTest, PartitionNamesBothNumbers) {
  const int cores = FindUsableCpus().count;
  const auto devices = Device::PartitionCpu(cores);
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(devices->size(), cores);
  const auto too_many = Device::PartitionCpu(cores + 1);
  EXPECT_THAT(
      std::string(too_many.status().message()),
      ::testing::StartsWith("requested " + std::to_string(cores + 1) + " CPU devices, but only " +
                            std::to_string(cores) + " cores are available"));
}

// A container with 2.5 CPUs of a machine's 4 cores: threads run wherever there is room.
TEST(DeviceTest, QuotaLimitsThreadsWithoutPinning) {
  const UsableCpus cpus = internal::UsableCpusOf({0, 1, 2, 3}, 2.5);
  const auto one = internal::PartitionCpus(1, cpus);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ((*one)[0]->num_threads(), 2);
  const auto two = internal::PartitionCpus(2, cpus);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_NE((*two)[0]->name(), (*two)[1]->name());
  EXPECT_EQ((*two)[1]->num_threads(), 1);
  const std::vector<int> before = AllowedCores();
  ASSERT_TRUE((*two)[0]->BindThread().ok());
  EXPECT_EQ(AllowedCores(), before);
  EXPECT_EQ(internal::PartitionCpus(3, cpus).status().message(),
            "requested 3 CPU devices, but only 2 cores are available: a CPU quota of 2.5 (cgroup) "
            "leaves 2 of 4 cores");
}

TEST(TensorTest, ViewOnAnotherDeviceSharesTheStorage) {
  const auto home = Device::Cpu(), away = Device::Cpu();
  const int64_t bytes = 4 * 64;
  Tensor borrowed;
  {
    const Tensor t = Tensor::Zeros(home, {4, 16}, DType::kF32);
    borrowed = t.Slice(1, 3).ViewOn(away).ViewOn(home).ViewOn(away);
    t.data<float>()[16] = 7;
  }
  EXPECT_EQ(borrowed.device(), away);
  EXPECT_EQ(borrowed.shape(), Shape({2, 16}));
  EXPECT_EQ(borrowed.data<float>()[0], 7);
  EXPECT_EQ(home->allocator().stats().allocated_bytes, bytes) << "the borrower keeps it alive";
  EXPECT_EQ(away->allocator().stats().allocated_bytes, 0);
  EXPECT_EQ(borrowed.Clone().device(), away);
  {
    Tensor gone;
    std::swap(gone, borrowed);
  }
  EXPECT_EQ(home->allocator().stats().allocated_bytes, 0);
}

}  // namespace
}  // namespace dpipe
