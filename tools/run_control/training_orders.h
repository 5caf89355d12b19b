// Agreement between the processes of a training run before they train: process 0 decides.
#ifndef DPIPE_TOOLS_RUN_CONTROL_TRAINING_ORDERS_H_
#define DPIPE_TOOLS_RUN_CONTROL_TRAINING_ORDERS_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/base/status.h"
#include "core/comm/rendezvous/process_group.h"
#include "tools/training_orders.pb.h"

namespace dpipe::tools {

// Checks that this process was started for the same run as process 0. Returns FailedPrecondition if
// a flag other than job.* differs, or the data set's size or fingerprint
// (SampleSource::fingerprint); the message has the field and both values.
absl::Status CheckSameRun(ProcessGroup* processes, const std::map<std::string, std::string>& config,
                          int64_t dataset_size, const std::string& data_fingerprint);

// Return process 0's argument in all processes.
absl::StatusOr<int64_t> AgreeOnFirstStep(ProcessGroup* processes, int64_t first_step);
absl::StatusOr<bool> AgreeOnPlanning(ProcessGroup* processes, bool plan);
absl::StatusOr<TrainingOrders> AgreeOnOrders(ProcessGroup* processes, const TrainingOrders& orders);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_RUN_CONTROL_TRAINING_ORDERS_H_
