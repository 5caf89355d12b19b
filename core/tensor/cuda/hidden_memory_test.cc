#include "core/tensor/cuda/testing/hidden_memory.h"

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace dpipe::cuda {
namespace {

TEST(HiddenMemoryTest, KeepsDataWrittenWithLeave) {
  HiddenMemory memory;
  char* const a = memory.Allocate(5);
  char* const b = memory.Allocate(3000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 512, 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 512, 0);
  EXPECT_GE(b - a, 5);
  {
    HiddenMemory::Leave leave(&memory);
    std::strcpy(a, "five");
    std::memset(b, 7, 3000);
  }
  char* const c = memory.Allocate(1 << 20);
  HiddenMemory::Leave leave(&memory);
  std::memset(c, 8, 1 << 20);
  EXPECT_EQ(std::string(a), "five");
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(b[i], 7) << i;
}

TEST(HiddenMemoryDeathTest, CrashesOnAccessWithoutLeave) {
  HiddenMemory memory;
  volatile char* const block = memory.Allocate(100);
  EXPECT_DEATH(block[0] = 1, "");
  EXPECT_DEATH((void)block[99], "");
  { HiddenMemory::Leave leave(&memory); }
  EXPECT_DEATH((void)block[0], "") << "the leave is over";
}

TEST(HiddenMemoryTest, LeaveOfNullDoesNothing) { HiddenMemory::Leave leave(nullptr); }

}  // namespace
}  // namespace dpipe::cuda
