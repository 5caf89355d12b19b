#include "tests/testlib/run_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "gtest/gtest.h"

namespace dpipe::testlib {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  return content.str();
}

[[noreturn]] void Become(const std::string& program, const std::vector<std::string>& arguments,
                         const std::string& out, const std::string& err) {
  const int out_fd = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err_fd = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(out_fd, STDOUT_FILENO);
  ::dup2(err_fd, STDERR_FILENO);
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  // The kernel ends a program that hangs: no clock is read here.
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

}  // namespace

ProgramOutcome RunProgram(const std::string& program, const std::vector<std::string>& arguments,
                          int deadline_s) {
  static int count = 0;
  const std::string base = ::testing::TempDir() + "/program_" + std::to_string(++count);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::alarm(deadline_s);  // survives execv
    Become(program, arguments, base + ".out", base + ".err");
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  ProgramOutcome outcome;
  outcome.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  outcome.out = ReadAll(base + ".out");
  outcome.err = ReadAll(base + ".err");
  EXPECT_NE(outcome.exit_code, 128 + SIGALRM)
      << program << " ran longer than " << deadline_s << " s";
  EXPECT_NE(outcome.exit_code, 127) << program << " could not be started";
  return outcome;
}

}  // namespace dpipe::testlib
