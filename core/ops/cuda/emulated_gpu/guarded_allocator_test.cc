#include "core/ops/cuda/emulated_gpu/guarded_allocator.h"

#include <cstring>

#include "gtest/gtest.h"

namespace dpipe::ops::cuda {
namespace {

TEST(GuardedAllocatorTest, BlocksAreAlignedPoisonedAndCounted) {
  GuardedAllocator allocator;
  allocator.set_poison(true);
  for (int64_t size : {0, 1, 16, 4095, 4096, 10000}) {
    auto* const block = static_cast<unsigned char*>(allocator.Allocate(size));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 16, 0u);
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(block[i], 0xff);
    std::memset(block, 1, size);
    EXPECT_EQ(allocator.stats().allocated_bytes, size);
    allocator.Free(block, size);
  }
  EXPECT_EQ(allocator.stats().allocated_bytes, 0);
  EXPECT_EQ(allocator.stats().peak_bytes, 10000);
}

TEST(GuardedAllocatorDeathTest, AccessBeyondABlockDies) {
  GuardedAllocator allocator;
  auto* const block = static_cast<volatile char*>(allocator.Allocate(4000));
  EXPECT_DEATH(block[4000] = 1, "");
  EXPECT_DEATH(block[-4097] = 1, "");
}

TEST(GuardedAllocatorDeathTest, FreeDetectsWritesToThePadding) {
  GuardedAllocator allocator;
  auto* const block = static_cast<char*>(allocator.Allocate(37));
  EXPECT_DEATH(
      {
        block[37] = 1;
        allocator.Free(block, 37);
      },
      "beyond a block of 37 bytes");
}

}  // namespace
}  // namespace dpipe::ops::cuda
