// Starts the processes of a training run, or joins those started by a launcher.
#ifndef DPIPE_TOOLS_TRAIN_FLAGS_TRAIN_PROCESSES_H_
#define DPIPE_TOOLS_TRAIN_FLAGS_TRAIN_PROCESSES_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/comm/rendezvous/job_address.h"
#include "core/comm/rendezvous/process_group.h"
#include "tools/train_config.pb.h"

namespace dpipe::tools {

// If --nproc asks for processes, starts that many of this program with `arguments`, and returns the
// exit code once all have ended. Returns nullopt if this process is to train itself. Call it before
// there are threads.
absl::StatusOr<std::optional<int>> RunProcesses(const TrainConfig& config,
                                                const std::vector<std::string>& arguments);

// Joins the processes that train with this one. Returns null if this one trains alone.
absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinProcesses(const TrainConfig& config);

// Returns this process's place in its job, from flags or the environment, or nullopt if it trains
// alone. Returns InvalidArgument if flags and environment contradict each other.
absl::StatusOr<std::optional<JobAddress>> FindJob(const JobConfig& config,
                                                  const Environment& environment);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAIN_FLAGS_TRAIN_PROCESSES_H_
