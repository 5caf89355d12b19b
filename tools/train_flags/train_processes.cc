#include "tools/train_flags/train_processes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/files/run_paths.h"
#include "core/comm/rendezvous/launch/local_launcher.h"
#include "core/command_line/command_line.h"

namespace dpipe::tools {
namespace {

// Returns text such as "process 1 of 2 by torchrun's environment".
std::string Describe(const JobAddress& job) {
  return absl::StrCat("process ", job.process, " of ", job.num_processes, " by ", job.source);
}

}  // namespace

absl::StatusOr<std::optional<JobAddress>> FindJob(const JobConfig& config,
                                                  const Environment& environment) {
  DPIPE_ASSIGN_OR_RETURN(std::optional<JobAddress> job, JobAddressFromEnvironment(environment));
  if (config.processes() > 0 && job.has_value()) {
    return CommandLineError(absl::StrCat("--job.processes=", config.processes(),
                                         ", but this is already ", Describe(*job)));
  }
  if (config.processes() == 0 && config.process() > 0) {
    return CommandLineError(absl::StrCat("--job.process=", config.process(),
                                         " needs --job.processes, the number of processes"));
  }
  if (config.processes() > 0) {
    JobByHand by_hand;
    by_hand.master = config.master();
    by_hand.process = config.process();
    by_hand.num_processes = config.processes();
    by_hand.per_host = config.per_host();
    auto address = JobAddressByHand(by_hand);
    if (!address.ok()) return CommandLineError(std::string(address.status().message()));
    job = *std::move(address);
  }
  return job;
}

absl::StatusOr<std::optional<int>> RunProcesses(const TrainConfig& config,
                                                const std::vector<std::string>& arguments) {
  if (config.job().nproc() <= 1 || StartedByLauncher()) return std::optional<int>();
  DPIPE_ASSIGN_OR_RETURN(const std::optional<JobAddress> job,
                         FindJob(config.job(), ProcessEnvironment));
  if (job.has_value()) {
    return CommandLineError(absl::StrCat("--nproc=", config.job().nproc(),
                                         " starts processes, but this is already ",
                                         Describe(*job)));
  }
  LaunchOptions options;
  options.num_processes = config.job().nproc();
  options.arguments = arguments;
  DPIPE_ASSIGN_OR_RETURN(const int exit_code, LaunchLocalProcesses(options));
  return std::optional<int>(exit_code);
}

absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinProcesses(const TrainConfig& config) {
  DPIPE_ASSIGN_OR_RETURN(const std::optional<JobAddress> job,
                         FindJob(config.job(), ProcessEnvironment));
  if (!job.has_value() || job->num_processes == 1) return std::unique_ptr<ProcessGroup>();
  ProcessGroupOptions options;
  options.ranks_per_process = std::max(1, config.devices());
  options.join_deadline = absl::Seconds(config.job().join());
  options.silence = absl::Seconds(config.job().silence());
  if (!config.job().secret_file().empty()) {
    options.secret_file = UserPath(config.job().secret_file());
  }
  options.listener_fd = InheritedListener().value_or(-1);
  return ProcessGroup::Join(*job, options);
}

}  // namespace dpipe::tools
