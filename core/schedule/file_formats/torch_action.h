// The cells of a torch.distributed.pipelining schedule file. [interop.md]
//
// A file has no header and one row per rank. Cells are in time order, separated by commas; an empty
// cell is idle.
//
//   cell    = "" | action | "(" action ";" action ")OVERLAP_F_B"
//   action  = stage type [micro-batch]          numbers from 0, without leading zeros
//
// An overlap is a forward and a backward pass that do not depend on each other. It is read as one
// action after the other.
#ifndef DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_ACTION_H_
#define DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_ACTION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

enum class TorchActionType {
  kForward,        // F
  kFullBackward,   // B; BW in older files
  kInputGrad,      // I; B in older files
  kWeightGrad,     // W
  kSendForward,    // SEND_F: names the sender's stage
  kRecvForward,    // RECV_F: names the receiver's stage
  kSendBackward,   // SEND_B
  kRecvBackward,   // RECV_B
  kWaitForward,    // WAIT_SEND_F: waits until the send's buffer is free
  kWaitBackward,   // WAIT_SEND_B
  kUnshard,        // UNSHARD: this and all types below have no micro-batch
  kReshard,        // RESHARD
  kReduceGrad,     // REDUCE_GRAD
  kWaitReduceGrad  // WAIT_REDUCE_GRAD
};

// Returns the current spelling of a type, for example "SEND_F".
absl::string_view TorchTypeName(TorchActionType type);

struct TorchAction {
  TorchActionType type = TorchActionType::kForward;
  int stage = 0;
  int micro_batch = -1;  // -1 if the type has none
  int row = 0, column = 0;
  std::string cell;  // the whole text of the cell
};

// Returns the prefix of every message about a cell: "row 2 (rank 1), column 5 ('0F7'): ". Rows and
// columns count from 1 in the text, and from 0 in the arguments.
std::string TorchCellName(int row, int column, absl::string_view cell);
std::string TorchCellName(const TorchAction& action);

// Returns the actions by rank, in order. Lines may end in "\n" or "\r\n", and blanks around a cell
// are ignored. A file uses the older names if it has a BW, or a W and no I. InvalidArgument, naming
// row, column and cell, if a cell does not match the grammar above, a number exceeds 999999, older
// and newer names are mixed, or a row has no actions.
absl::StatusOr<std::vector<std::vector<TorchAction>>> ParseTorchActions(absl::string_view text);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_ACTION_H_
