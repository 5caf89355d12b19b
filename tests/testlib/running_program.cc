#include "tests/testlib/running_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dpipe::testlib {
namespace {

constexpr int kCouldNotStart = 127;  // as in shells

[[noreturn]] void Become(const ProgramOptions& options) {
  const auto open_for = [](const std::string& path, int to) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    ::dup2(fd, to);
  };
  open_for(options.out, STDOUT_FILENO);
  if (options.err == options.out) {
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
  } else {
    open_for(options.err, STDERR_FILENO);
  }
  ::alarm(options.deadline_s);  // survives execve; 0 sets none
  std::vector<char*> argv = {const_cast<char*>(options.program.c_str())};
  for (const std::string& argument : options.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  for (const std::string& entry : options.environment) {
    ::putenv(const_cast<char*>(entry.c_str()));
  }
  ::execv(options.program.c_str(), argv.data());
  const int error = errno;
  ::dprintf(
      STDERR_FILENO, "%s, in the folder %s: %s%s\n", options.program.c_str(),
      std::filesystem::current_path().c_str(), std::strerror(error),
      options.program[0] == '/' ? "" : "; `bazel run` starts programs in their runfiles folder");
  ::_exit(kCouldNotStart);
}

}  // namespace

RunningProgram::RunningProgram(const ProgramOptions& options) : err_(options.err) {
  pid_ = ::fork();
  if (pid_ == 0) Become(options);
  if (pid_ < 0) EndedUnknown();
}

RunningProgram::~RunningProgram() { Kill(); }

void RunningProgram::Signal(int number) {
  if (!Poll()) ::kill(pid_, number);
}

bool RunningProgram::Poll() {
  WaitBy(WNOHANG);
  return ended_;
}

bool RunningProgram::AwaitError(const std::string& text) {
  while (true) {
    const bool ended = Poll();
    std::ifstream file(err_);
    std::ostringstream content;
    content << file.rdbuf();
    if (content.str().find(text) != std::string::npos) return true;
    if (ended) return false;
    usleep(10000);
  }
}

void RunningProgram::Wait() { WaitBy(0); }

void RunningProgram::WaitBy(int flags) {
  while (!ended_) {
    const pid_t pid = ::waitpid(pid_, &status_, flags);
    if (pid == pid_) ended_ = true;
    if (pid < 0 && errno != EINTR) EndedUnknown();
    if (pid == 0) return;
  }
}

// There is no process, or its end cannot be determined: not a success, and no target for signals.
void RunningProgram::EndedUnknown() {
  ended_ = true;
  status_ = kCouldNotStart << 8;
}

void RunningProgram::Kill() {
  Signal(SIGKILL);
  Wait();
}

int RunningProgram::exit_code() const {
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

}  // namespace dpipe::testlib
