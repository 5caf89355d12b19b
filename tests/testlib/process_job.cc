#include "tests/testlib/process_job.h"

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/comm/rendezvous/socket.h"

namespace dpipe::testlib {

absl::StatusOr<std::unique_ptr<ProcessJob>> ProcessJob::Create(const ProcessJobOptions& options) {
  auto job = std::unique_ptr<ProcessJob>(new ProcessJob(options));
  DPIPE_RETURN_IF_ERROR(MakeFolder(job->Home()));
  if (options.port != 0) return job;
  DPIPE_ASSIGN_OR_RETURN(const Socket free, ListenOnLoopback());
  job->options_.port = free.port();
  return job;
}

void ProcessJob::Start(int process, const std::vector<std::string>& more_flags) {
  ProgramOptions program;
  std::vector<std::string> words;
  if (!options_.wrappers.empty()) words = options_.wrappers[process];
  words.push_back(options_.program);
  words.insert(words.end(), options_.flags.begin(), options_.flags.end());
  words.insert(words.end(), more_flags.begin(), more_flags.end());
  program.environment = {absl::StrCat("HOME=", Home())};
  if (options_.by_environment) {
    for (const std::string& entry :
         {absl::StrCat("RANK=", process), absl::StrCat("WORLD_SIZE=", size()),
          absl::StrCat("LOCAL_RANK=", process), absl::StrCat("LOCAL_WORLD_SIZE=", size()),
          absl::StrCat("MASTER_ADDR=", options_.master),
          absl::StrCat("MASTER_PORT=", options_.port)}) {
      program.environment.push_back(entry);
    }
  } else {
    for (const std::string& flag :
         {absl::StrCat("--job.process=", process), absl::StrCat("--job.processes=", size()),
          absl::StrCat("--job.per_host=", size()),
          absl::StrCat("--job.master=", options_.master, ":", options_.port)}) {
      words.push_back(flag);
    }
  }
  program.program = words[0];
  program.arguments.assign(words.begin() + 1, words.end());
  program.out = program.err = Console(process);
  program.deadline_s = options_.deadline_s;
  programs_[process] = std::make_unique<RunningProgram>(program);
}

void ProcessJob::StartAll() {
  for (int i = 0; i < size(); ++i) Start(i);
}

int ProcessJob::ExitCode(int process) {
  programs_[process]->Wait();
  return programs_[process]->exit_code();
}

std::string ProcessJob::Output(int process) const {
  return ReadFile(Console(process)).value_or("");
}

std::string ProcessJob::Home() const { return options_.consoles + ".home"; }

std::string ProcessJob::Console(int process) const {
  return absl::StrCat(options_.consoles, ".", process);
}

}  // namespace dpipe::testlib
