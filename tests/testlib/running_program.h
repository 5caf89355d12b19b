// A program that runs beside the test.
#ifndef DPIPE_TESTS_TESTLIB_RUNNING_PROGRAM_H_
#define DPIPE_TESTS_TESTLIB_RUNNING_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace dpipe::testlib {

struct ProgramOptions {
  std::string program;  // a path, relative ones below the runfiles, as "tools/train"
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // "RANK=1", besides this process's own
  std::string out, err;                  // files that it writes what it says to; may be the same
  int deadline_s = 0;                    // the kernel ends it then, by SIGALRM; 0: never
};

class RunningProgram {
 public:
  explicit RunningProgram(const ProgramOptions& options);
  // Kills it.
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number);
  // Whether it has ended.
  bool Poll();
  void Wait();
  // SIGKILL, where it has not ended.
  void Kill();

  // Once it has ended: 128 + signal where a signal ended it; 127 where it could not be started.
  int exit_code() const;

 private:
  void WaitBy(int flags);
  void EndedUnknown();

  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_RUNNING_PROGRAM_H_
