#include "core/base/host/out_of_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ExitedWithCode;

#ifdef __SANITIZE_ADDRESS__
constexpr bool kHasOwnLimits = true;  // terabytes of shadow memory, and their own operator new
#else
constexpr bool kHasOwnLimits = false;
#endif

constexpr int64_t kMiB = 1 << 20;

// Limits this process to `room` more bytes of address space. For child processes only.
void LimitTo(int64_t room) {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0) std::abort();
  // Room is counted from a limit; this one is unlimited in practice.
  limit.rlim_cur = int64_t{1} << 46;
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::abort();
  limit.rlim_cur -= AddressSpaceRoomBytes() - room;
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::abort();
}

class OutOfMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kHasOwnLimits) GTEST_SKIP() << "the address sanitizer limits memory in its own way";
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

TEST_F(OutOfMemoryTest, MessageNamesSizeAndLimit) {
  const auto take = [] {
    EndWhenOutOfMemory("draw");
    LimitTo(32 * kMiB);
    std::vector<char> large(100 * kMiB);
    std::exit(large[5]);
  };
  EXPECT_EXIT(take(), ExitedWithCode(kOutOfMemoryExitCode),
              "^draw: out of memory: the system cannot provide 100.0 MiB for one object; this "
              "process has .* MiB of address space, the limit is .* \\(ulimit -v\\); use less");
}

TEST_F(OutOfMemoryTest, MessageNamesAThreadThatCannotStart) {
  const auto start = [] {
    EndWhenOutOfMemory("draw");
    LimitTo(6 * kMiB);  // the stack alone takes 8
    try {
      std::thread([] {}).join();
    } catch (...) {
      std::terminate();  // as if nobody caught it
    }
    std::exit(0);
  };
  EXPECT_EXIT(start(), ExitedWithCode(kOutOfMemoryExitCode),
              "draw: out of memory: the system cannot provide one more thread");
}

TEST_F(OutOfMemoryTest, MessageNamesThePurpose) {
  EXPECT_EXIT(EndOutOfMemory(3 * kMiB, "a tensor"), ExitedWithCode(kOutOfMemoryExitCode),
              "^out of memory: the system cannot provide 3.0 MiB for a tensor; this process has");
}

TEST_F(OutOfMemoryTest, RoomIsUnlimitedWithoutALimit) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  if (limit.rlim_cur != RLIM_INFINITY) GTEST_SKIP() << "this process has a limit";
  EXPECT_EQ(AddressSpaceRoomBytes(), std::numeric_limits<int64_t>::max());
}

TEST_F(OutOfMemoryTest, NewThrowsUnlessEnabled) {
  EXPECT_THROW(std::vector<char>(int64_t{1} << 60), std::bad_alloc);
}

}  // namespace
}  // namespace dpipe
