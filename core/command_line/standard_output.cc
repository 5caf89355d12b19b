#include "core/command_line/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace dpipe {
namespace {

// Returns the error number of standard output, or 0 if there is none. The C library does not keep
// that of an earlier write, so one more line is written to see if the cause persists.
int OutputError() {
  if (std::fflush(stdout) != 0) return errno;
  if (std::ferror(stdout) == 0) return 0;
  return ::write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
}

}  // namespace

void KeepStandardDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // open takes the smallest free number. Standard output stays an error, since nobody can read
    // it.
    const int opened = ::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != fd) ::close(opened);
  }
}

int FinishStandardOutput(const std::string& program, int code) {
  const int error = OutputError();
  if (error == 0 || error == EPIPE) return code;
  std::fprintf(stderr, "%s: cannot write standard output: %s\n", program.c_str(),
               std::strerror(error));
  return code == 0 ? 1 : code;
}

}  // namespace dpipe
