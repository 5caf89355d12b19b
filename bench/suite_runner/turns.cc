#include "bench/suite_runner/turns.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dpipe::bench {
namespace {

// Returns 1, or 0 at the end of the pipe.
absl::StatusOr<int> ReadByte(int fd) {
  char byte = 0;
  ssize_t count = 0;
  do {
    count = read(fd, &byte, 1);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    return absl::InternalError(absl::StrCat("reading from a pipe of turns: ", strerror(errno)));
  }
  return static_cast<int>(count);
}

bool WriteByte(int fd) {
  ssize_t count = 0;
  do {
    count = write(fd, "t", 1);
  } while (count < 0 && errno == EINTR);
  return count == 1;
}

}  // namespace

absl::StatusOr<TurnPipes> ParseTurnPipes(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  TurnPipes pipes;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &pipes.read_fd) ||
      !absl::SimpleAtoi(parts[1], &pipes.write_fd) || fcntl(pipes.read_fd, F_GETFD) < 0 ||
      fcntl(pipes.write_fd, F_GETFD) < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not READ,WRITE, two open file descriptors"));
  }
  return pipes;
}

absl::Status WaitForTurn(const TurnPipes& pipes) {
  const auto gone = absl::CancelledError("the program that coordinates the turns has ended");
  if (!WriteByte(pipes.write_fd)) return gone;
  DPIPE_ASSIGN_OR_RETURN(const int count, ReadByte(pipes.read_fd));
  return count == 1 ? absl::OkStatus() : gone;
}

absl::StatusOr<bool> WaitUntilReady(const TurnPipes& pipes) {
  DPIPE_ASSIGN_OR_RETURN(const int count, ReadByte(pipes.read_fd));
  return count == 1;
}

void GiveTurn(const TurnPipes& pipes) { WriteByte(pipes.write_fd); }

}  // namespace dpipe::bench
