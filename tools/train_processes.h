// The processes of a training run: started here, or found.
#ifndef DPIPE_TOOLS_TRAIN_PROCESSES_H_
#define DPIPE_TOOLS_TRAIN_PROCESSES_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/comm/rendezvous/job_address.h"
#include "core/comm/rendezvous/process_group.h"
#include "tools/train_config.pb.h"

namespace dpipe::tools {

// Where --nproc asks for processes: starts this program as often, with `arguments`, and gives the
// exit code once all have ended. None where this process is to train itself. To be called before
// there are threads.
absl::StatusOr<std::optional<int>> RunProcesses(const TrainConfig& config,
                                                const std::vector<std::string>& arguments);

// Joins the processes that train with this one; null where it trains alone.
absl::StatusOr<std::unique_ptr<ProcessGroup>> JoinProcesses(const TrainConfig& config);

// What this process is, by flags or by what the environment says; none where it trains alone. An
// InvalidArgument where the two do not go together.
absl::StatusOr<std::optional<JobAddress>> FindJob(const JobConfig& config,
                                                  const Environment& environment);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAIN_PROCESSES_H_
