#include "bench/regression/run_in_turns.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/suite_runner/suite_process.h"
#include "core/base/files/file.h"
#include "core/command_line/command_line.h"

namespace dpipe::bench {
namespace {

// A running program, which ends with this object.
class Process {
 public:
  static absl::StatusOr<std::unique_ptr<Process>> Start(const SuiteProgram& program,
                                                        const std::string& turns_name) {
    int to_program[2], from_program[2];
    // Closed on exec by default: if the other program held them, their end would never be seen.
    if (pipe2(to_program, O_CLOEXEC) != 0 || pipe2(from_program, O_CLOEXEC) != 0) {
      return absl::InternalError(absl::StrCat("pipes for turns: ", strerror(errno)));
    }
    auto process = std::unique_ptr<Process>(new Process(program));
    process->pipes_ = {from_program[0], to_program[1]};
    std::vector<std::string> words = {program.path};
    words.insert(words.end(), program.arguments.begin(), program.arguments.end());
    words.push_back(absl::StrCat("--turns=", to_program[0], ",", from_program[1], ",", turns_name));
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    process->pid_ = fork();
    if (process->pid_ == 0) ExecProgram(argv, program.log_path, to_program[0], from_program[1]);
    close(to_program[0]), close(from_program[1]);
    if (process->pid_ < 0) {
      return absl::InternalError(absl::StrCat("starting ", program.path, ": ", strerror(errno)));
    }
    return process;
  }

  ~Process() {
    close(pipes_.read_fd), close(pipes_.write_fd);
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }

  // Returns false once the program has ended.
  absl::StatusOr<bool> IsReady() const { return WaitUntilReady(pipes_); }
  void Turn() const { GiveTurn(pipes_); }

  // Returns the program's result; call it after the program has ended.
  absl::Status Result() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kBadResult)) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("the ", program_.name, " program ended with ",
                                            WIFEXITED(status)
                                                ? absl::StrCat("status ", WEXITSTATUS(status))
                                                : absl::StrCat("signal ", WTERMSIG(status)),
                                            ":\n", LastLines()));
  }

 private:
  explicit Process(const SuiteProgram& program) : program_(program) {}

  // Runs in the child and never returns. Calls only functions that are safe after fork.
  [[noreturn]] static void ExecProgram(const std::vector<char*>& argv, const std::string& log_path,
                                       int read_fd, int write_fd) {
    const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
    if (log >= 0) dup2(log, STDOUT_FILENO), dup2(log, STDERR_FILENO);
    fcntl(read_fd, F_SETFD, 0);
    fcntl(write_fd, F_SETFD, 0);
    execv(argv[0], argv.data());
    _exit(127);
  }

  std::string LastLines() const {
    constexpr size_t kLines = 8;
    const auto log = ReadFile(program_.log_path);
    if (!log.ok()) return std::string(log.status().message());
    const std::vector<std::string> lines = absl::StrSplit(*log, '\n');
    return absl::StrJoin(lines.end() - std::min(kLines, lines.size()), lines.end(), "\n");
  }

  const SuiteProgram& program_;
  TurnPipes pipes_;
  pid_t pid_ = -1;
};

}  // namespace

absl::Status RunInTurns(const std::array<SuiteProgram, 2>& programs,
                        const std::string& turns_name) {
  // Writing to a program that has ended must not end this program.
  signal(SIGPIPE, SIG_IGN);
  std::array<std::unique_ptr<Process>, 2> processes;
  std::array<bool, 2> runs = {};
  for (int i = 0; i < 2; ++i) {
    DPIPE_ASSIGN_OR_RETURN(processes[i], Process::Start(programs[i], turns_name));
    DPIPE_ASSIGN_OR_RETURN(runs[i], processes[i]->IsReady());
    if (!runs[i]) DPIPE_RETURN_IF_ERROR(processes[i]->Result());
  }
  for (int round = 0; runs[0] || runs[1]; ++round) {
    for (int k = 0; k < 2; ++k) {
      const int i = (round + k) % 2;
      if (!runs[i]) continue;
      processes[i]->Turn();
      DPIPE_ASSIGN_OR_RETURN(runs[i], processes[i]->IsReady());
      if (!runs[i]) DPIPE_RETURN_IF_ERROR(processes[i]->Result());
    }
  }
  return absl::OkStatus();
}

}  // namespace dpipe::bench
