// A run of several processes, each started for itself as a scheduler does it.
#ifndef DPIPE_TESTS_TESTLIB_PROCESS_JOB_H_
#define DPIPE_TESTS_TESTLIB_PROCESS_JOB_H_

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tests/testlib/running_program.h"

namespace dpipe::testlib {

struct ProcessJobOptions {
  std::string program;             // //tools:train, say, by its path below the runfiles
  std::vector<std::string> flags;  // of all processes
  int num_processes = 2;
  std::string consoles;  // what process i says goes to CONSOLES.i
  std::string master = "127.0.0.1";
  int port = 0;  // where process 0 listens; 0: a free one of this machine
  // Each is told which it is by torchrun's environment, or else by flags.
  bool by_environment = false;
  // What process i is started by, as {"/usr/sbin/ip", "netns", "exec", "left"}; empty: nothing.
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
  int ExitCode(int process);  // waits for its end
  // So far.
  std::string Said(int process) const;

 private:
  explicit ProcessJob(const ProcessJobOptions& options)
      : options_(options), programs_(options.num_processes) {}
  std::string Console(int process) const;
  // The user's home folder, as the processes see it: where the job's secret is made.
  std::string Home() const;

  ProcessJobOptions options_;
  std::vector<std::unique_ptr<RunningProgram>> programs_;
};

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_PROCESS_JOB_H_
