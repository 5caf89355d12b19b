// Imports and exports schedule files of torch.distributed.pipelining. [interop.md]
//
// A file holds one chain of stages, each on one rank, and for every rank its passes in order; with
// communication, also the messages between them. torch_action.h has the grammar.
//
// Import rejects, naming row, column, cell and the error:
//   - what the grammar does not allow;
//   - stages or micro-batches that are not numbered from 0 without gaps;
//   - a stage on two ranks;
//   - a pass that is repeated, out of order, or missing;
//   - weight gradients of a stage out of micro-batch order, which would change the bits of the sums
//     (torch's own LoopedBFS is such a schedule);
//   - an order that cannot run to completion.
//
// In a file with messages (one that has a SEND or a RECV),
//   - exactly one SEND after the pass that makes the data, and one RECV before the pass that needs
//     it, cross every boundary between ranks; none cross a boundary within a rank;
//   - the messages from one rank to another are received in the order in which they are sent;
//   - if there is any WAIT_SEND, every SEND has one after it.
//
// UNSHARD and RESHARD must alternate for each stage and enclose its passes. REDUCE_GRAD must follow
// the stage's last weight gradient, and WAIT_REDUCE_GRAD must follow REDUCE_GRAD. The schedule does
// not keep these four, nor idle cells and overlaps: the two passes of an overlap become
// consecutive.
//
// Not checked: whether blocking messages, or a limit on messages in flight, would deadlock although
// asynchronous messages do not.
#ifndef DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_CSV_H_
#define DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_CSV_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/schedule/schedule.h"

namespace dpipe {

// Returns the schedule in a file. InvalidArgument as above. Time O(n log n) for n cells.
absl::StatusOr<Schedule> ScheduleFromTorchCsv(const std::string& name, absl::string_view text);

enum class TorchCsvMode {
  kComputeOnly,        // torch: format="compute_only"
  kWithCommunication,  // torch: format="compute_comms"
};

struct TorchCsvOptions {
  TorchCsvMode mode = TorchCsvMode::kComputeOnly;
  // With communication only: adds a WAIT_SEND_F after the stage's backward pass of the micro-batch,
  // and the other WAIT_SENDs at the end. Versions of torch that know them require them (2.15 does);
  // older versions cannot read them.
  bool send_waits = false;
};

// Returns the schedule as a file without idle cells. Messages are placed where a run with equal
// passes would issue them: a SEND after its pass, the RECV after what the receiver has started by
// then. InvalidArgument, with the reason, for what the format cannot express: several chains (of
// one backbone, whose stages are on several ranks, or of several backbones), forward-only stages, a
// device without stages.
absl::StatusOr<std::string> TorchCsvFromSchedule(const Schedule& schedule,
                                                 const TorchCsvOptions& options);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_CSV_H_
