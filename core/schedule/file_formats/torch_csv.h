// Schedules as files of torch.distributed.pipelining. [interop.md]; the grammar is torch_action.h.
//
// A file holds one chain of stages, each on one rank, and for every rank its passes in order; with
// communication, also the messages between them.
//
// Import refuses, naming row, column, cell and what is wrong: what the grammar does not allow;
// stages or micro-batches that are not numbered without gaps from 0; a stage on two ranks; a pass
// twice, out of order, or missing; weight gradients of a stage out of micro-batch order (which
// would change the sums' bits; torch's own LoopedBFS is such a schedule); an order that cannot run
// to its end. In a file with messages (one that has a SEND or a RECV) every boundary between ranks
// must be crossed by exactly one SEND after the pass that makes the data and one RECV before the
// pass that needs it, none may cross a boundary within a rank, and the messages from one rank to
// another must be received in the order in which they are sent; if there is a WAIT_SEND, every SEND
// has one behind it. UNSHARD and RESHARD must alternate for each stage and enclose its passes;
// REDUCE_GRAD follows the stage's last weight gradient, WAIT_REDUCE_GRAD follows it. These four
// leave no trace in the schedule. Nor do idle cells and overlaps, whose two passes follow each
// other.
//
// Not checked: whether blocking messages, or a limit on those in flight, would deadlock where
// asynchronous ones do not.
#ifndef DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_CSV_H_
#define DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_CSV_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// InvalidArgument as above. Time O(n log n) in the number of cells.
absl::StatusOr<Schedule> ScheduleFromTorchCsv(const std::string& name, absl::string_view text);

enum class TorchCsvMode {
  kComputeOnly,        // torch: format="compute_only"
  kWithCommunication,  // torch: format="compute_comms"
};

struct TorchCsvOptions {
  TorchCsvMode mode = TorchCsvMode::kComputeOnly;
  // With communication: a WAIT_SEND_F after the stage's backward pass of the micro-batch, the other
  // WAIT_SENDs last. Versions of torch that know them demand them (2.15 does); older ones do not
  // read them.
  bool send_waits = false;
};

// Without idle cells. Messages are put where a run with equal passes would issue them: a SEND
// behind its pass, the RECV behind what the receiver has begun by then. InvalidArgument, saying
// why, for what the format has no words for: several chains (of one backbone, whose stages lie on
// several ranks; or of several), forward-only stages, a device without stages.
absl::StatusOr<std::string> TorchCsvFromSchedule(const Schedule& schedule,
                                                 const TorchCsvOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_CSV_H_
