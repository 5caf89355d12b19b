// What the processes of a training run agree on before they train: the first decides.
#ifndef DPIPE_TOOLS_TRAINING_ORDERS_H_
#define DPIPE_TOOLS_TRAINING_ORDERS_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/base/status.h"
#include "core/comm/rendezvous/process_group.h"
#include "tools/training_orders.pb.h"

namespace dpipe::tools {

// FailedPrecondition where another process than the first has other flags than it, but for job.*,
// or finds a data set of another size or fingerprint (SampleSource::fingerprint); names the field
// and both values.
absl::Status CheckSameRun(ProcessGroup* processes, const std::map<std::string, std::string>& config,
                          int64_t dataset_size, const std::string& data_fingerprint);

// The first's answer, for all.
absl::StatusOr<int64_t> AgreeOnFirstStep(ProcessGroup* processes, int64_t first_step);
absl::StatusOr<bool> AgreeWhetherToPlan(ProcessGroup* processes, bool plan);
absl::StatusOr<TrainingOrders> AgreeOnOrders(ProcessGroup* processes, const TrainingOrders& orders);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_ORDERS_H_
