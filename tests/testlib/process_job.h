// A run of several processes, each started separately, as by a scheduler.
#ifndef DPIPE_TESTS_TESTLIB_PROCESS_JOB_H_
#define DPIPE_TESTS_TESTLIB_PROCESS_JOB_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tests/testlib/running_program.h"

namespace dpipe::testlib {

struct ProcessJobOptions {
  std::string program;             // path below the runfiles, such as //tools:train's
  std::vector<std::string> flags;  // of all processes
  int num_processes = 2;
  std::string consoles;  // the output of process i goes to CONSOLES.i
  std::string master = "127.0.0.1";
  int port = 0;  // where process 0 listens; 0: any free port
  // Passes each process's number by torchrun's environment variables, otherwise by flags.
  bool by_environment = false;
  // The command prefix of process i, like {"/usr/sbin/ip", "netns", "exec", "left"}; empty: none.
  std::vector<std::vector<std::string>> wrappers;
  int deadline_s = 0;  // of each process, see ProgramOptions
};

class ProcessJob {
 public:
  static absl::StatusOr<std::unique_ptr<ProcessJob>> Create(const ProcessJobOptions& options);

  void Start(int process, const std::vector<std::string>& more_flags = {});
  void StartAll();

  int size() const { return options_.num_processes; }
  RunningProgram& program(int process) { return *programs_[process]; }
  int ExitCode(int process);  // blocks until the process ends
  // Returns the output so far.
  std::string Output(int process) const;

 private:
  explicit ProcessJob(const ProcessJobOptions& options)
      : options_(options), programs_(options.num_processes) {}
  std::string Console(int process) const;
  // The user's home folder as the processes see it, in which the job's secret is created.
  std::string Home() const;

  ProcessJobOptions options_;
  std::vector<std::unique_ptr<RunningProgram>> programs_;
};

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_PROCESS_JOB_H_
