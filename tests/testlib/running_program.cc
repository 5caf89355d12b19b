#include "tests/testlib/running_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace dpipe::testlib {
namespace {

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
  ::_exit(127);
}

}  // namespace

RunningProgram::RunningProgram(const ProgramOptions& options) {
  pid_ = ::fork();
  if (pid_ == 0) Become(options);
}

RunningProgram::~RunningProgram() { Kill(); }

void RunningProgram::Signal(int number) {
  if (!Poll()) ::kill(pid_, number);
}

bool RunningProgram::Poll() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

void RunningProgram::Wait() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, 0) == pid_;
}

void RunningProgram::Kill() {
  Signal(SIGKILL);
  Wait();
}

int RunningProgram::exit_code() const {
  return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
}

}  // namespace dpipe::testlib
