#include "core/command_line/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ExitedWithCode;

// Prints to `fd` in a child process.
[[noreturn]] void PrintTo(int fd, int code) {
  dup2(fd, STDOUT_FILENO);
  std::printf("text\n");
  std::_Exit(FinishStandardOutput("draw", code));
}

TEST(StandardOutputTest, AFullDiskIsAnError) {
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  EXPECT_EXIT(PrintTo(full, 0), ExitedWithCode(1),
              "^draw: cannot write standard output: No space left on device\n");
  EXPECT_EXIT(PrintTo(full, 3), ExitedWithCode(3), "cannot write standard output");
  // The error of an earlier write counts too.
  const auto flush_first = [full] {
    dup2(full, STDOUT_FILENO);
    std::printf("text\n");
    std::fflush(stdout);
    std::_Exit(FinishStandardOutput("draw", 0));
  };
  EXPECT_EXIT(flush_first(), ExitedWithCode(1), "No space left on device");
}

TEST(StandardOutputTest, ReaderMayDisappear) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const auto print = [&ends] {
    signal(SIGPIPE, SIG_IGN);
    PrintTo(ends[1], 0);
  };
  EXPECT_EXIT(print(), ExitedWithCode(0), "^$");
}

TEST(StandardOutputTest, FilesDoNotReuseItsDescriptor) {
  const auto close_first = [] {
    close(STDOUT_FILENO);
    KeepStandardDescriptors();
    if (open("/dev/null", O_WRONLY) == STDOUT_FILENO) std::_Exit(9);
    std::printf("text\n");
    std::_Exit(FinishStandardOutput("draw", 0));
  };
  EXPECT_EXIT(close_first(), ExitedWithCode(1), "cannot write standard output");
}

}  // namespace
}  // namespace dpipe
