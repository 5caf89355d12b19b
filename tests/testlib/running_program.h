// A program that runs alongside the test.
#ifndef DPIPE_TESTS_TESTLIB_RUNNING_PROGRAM_H_
#define DPIPE_TESTS_TESTLIB_RUNNING_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace dpipe::testlib {

struct ProgramOptions {
  std::string program;  // an absolute path, or one below the runfiles like "tools/train"
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // like "RANK=1", in addition to this process's own
  std::string out, err;                  // files for its output; may be the same
  int deadline_s = 0;                    // the kernel then ends it by SIGALRM; 0: never
};

class RunningProgram {
 public:
  explicit RunningProgram(const ProgramOptions& options);
  // Kills the program.
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number);
  // Returns true if the program has ended.
  bool Poll();
  // Waits until `text` is in the file of its standard error. Returns false if the program has ended
  // without it.
  bool AwaitError(const std::string& text);
  void Wait();
  // Sends SIGKILL if the program has not ended.
  void Kill();

  // Valid after the end: 128 + signal if a signal ended it, 127 if it could not be started.
  int exit_code() const;

 private:
  void WaitBy(int flags);
  void EndedUnknown();

  const std::string err_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_RUNNING_PROGRAM_H_
