#include "bench/suite_runner/suite_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/time.h"

namespace dpipe::bench {

namespace {

// Number of bytes of output kept to find the last line.
constexpr size_t kTail = 4096;

[[noreturn]] void ExecProgram(const std::vector<char*>& argv, int standard_error) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(standard_error, STDERR_FILENO);
  execv(argv[0], argv.data());
  std::fprintf(stderr, "starting %s: %s\n", argv[0], strerror(errno));
  _exit(127);
}

// Interval between checks for a request to stop, and time limit for a process to end.
constexpr int kPollMs = 100;
constexpr Nanos kTerminationGrace = 2 * kNanosPerSecond;

std::string StoppedBy(const std::function<std::string()>& stop_requested) {
  return stop_requested ? stop_requested() : "";
}

// Ends a process once a stop is requested.
class Stopper {
 public:
  Stopper(pid_t pid, const std::function<std::string()>& stop_requested)
      : pid_(pid), stop_requested_(stop_requested) {}

  void Poll() {
    if (terminated_at_ == 0) {
      if (StoppedBy(stop_requested_).empty()) return;
      kill(pid_, SIGTERM);
      terminated_at_ = MonotonicNow();
    } else if (MonotonicNow() - terminated_at_ > kTerminationGrace) {
      kill(pid_, SIGKILL);
    }
  }

 private:
  const pid_t pid_;
  const std::function<std::string()>& stop_requested_;
  Nanos terminated_at_ = 0;  // 0: not terminated yet
};

// Forwards all output to standard error until its end, and returns the last part.
std::string ForwardOutput(int from, Stopper* stopper) {
  std::string tail;
  char buffer[4096];
  for (;;) {
    stopper->Poll();
    pollfd readable = {from, POLLIN, 0};
    if (poll(&readable, 1, kPollMs) <= 0) continue;
    const ssize_t count = read(from, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return tail;
    std::fwrite(buffer, 1, count, stderr);
    tail.append(buffer, count);
    if (tail.size() > kTail) tail.erase(0, tail.size() - kTail);
  }
}

std::string LastLine(const std::string& text) {
  const absl::string_view trimmed = absl::StripTrailingAsciiWhitespace(text);
  const size_t end = trimmed.find_last_of("\n\r");
  return std::string(end == absl::string_view::npos ? trimmed : trimmed.substr(end + 1));
}

}  // namespace

std::vector<std::string> internal::OwnCommand(const std::vector<std::string>& started_by,
                                              const std::vector<std::string>& given,
                                              const std::string& more) {
  std::vector<std::string> command = started_by;
  if (started_by.size() <= given.size() + 1) {
    command = {"/proc/self/exe"};
    command.insert(command.end(), given.begin(), given.end());
  }
  command.push_back(more);
  return command;
}

std::vector<std::string> OwnCommand(const std::vector<std::string>& given,
                                    const std::string& more) {
  std::ifstream words("/proc/self/cmdline");
  std::vector<std::string> started_by;
  for (std::string word; std::getline(words, word, '\0');) started_by.push_back(word);
  return internal::OwnCommand(started_by, given, more);
}

absl::Status RunProcess(const std::vector<std::string>& command,
                        const std::function<std::string()>& stop_requested) {
  std::vector<std::string> words = command;
  const std::string& program = words[0];
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("a pipe for ", program, ": ", strerror(errno)));
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) ExecProgram(argv, pipes[1]);
  close(pipes[1]);
  if (pid < 0) {
    close(pipes[0]);
    return absl::InternalError(absl::StrCat("starting ", program, ": ", strerror(errno)));
  }
  Stopper stopper(pid, stop_requested);
  const std::string said = LastLine(ForwardOutput(pipes[0], &stopper));
  close(pipes[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  // A terminal sends Ctrl-C to both processes, and the other one may end first.
  const std::string stopped_by = StoppedBy(stop_requested);
  if (!stopped_by.empty()) return absl::CancelledError(absl::StrCat("stopped by ", stopped_by));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCancelledStatus) {
    return absl::CancelledError(said);
  }
  const std::string how = WIFEXITED(status) ? absl::StrCat("status ", WEXITSTATUS(status))
                                            : absl::StrCat("signal ", WTERMSIG(status));
  return absl::InternalError(
      absl::StrCat("its process ended with ", how, said.empty() ? "" : ": ", said));
}

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
