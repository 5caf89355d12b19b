// The cells of a torch.distributed.pipelining schedule file. [interop.md]
//
// No header; a row a rank, cells in order of time, separated by commas; an empty cell is idle.
//
//   cell    = "" | action | "(" action ";" action ")OVERLAP_F_B"
//   action  = stage type [micro-batch]          numbers from 0, without leading zeros
//
// The two actions of an overlap (a forward and a backward pass of which neither needs the other)
// are read as one after the other.
#ifndef DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_ACTION_H_
#define DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_ACTION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

enum class TorchActionType {
  kForward,        // F
  kFullBackward,   // B, of older files BW
  kInputGrad,      // I, of older files B
  kWeightGrad,     // W
  kSendForward,    // SEND_F: names the sender's stage
  kRecvForward,    // RECV_F: names the receiver's stage
  kSendBackward,   // SEND_B
  kRecvBackward,   // RECV_B
  kWaitForward,    // WAIT_SEND_F: the send's buffer is free
  kWaitBackward,   // WAIT_SEND_B
  kUnshard,        // UNSHARD: no micro-batch, as the ones below
  kReshard,        // RESHARD
  kReduceGrad,     // REDUCE_GRAD
  kWaitReduceGrad  // WAIT_REDUCE_GRAD
};

// As files spell it now, for example "SEND_F".
absl::string_view TorchTypeName(TorchActionType type);

struct TorchAction {
  TorchActionType type = TorchActionType::kForward;
  int stage = 0;
  int micro_batch = -1;  // -1: the type has none
  int row = 0, column = 0;
  std::string cell;  // all of it
};

// "row 2 (rank 1), column 5 ('0F7'): ", rows and columns from 1: how every message about a cell
// begins.
std::string TorchCellName(int row, int column, absl::string_view cell);
std::string TorchCellName(const TorchAction& action);

// By rank, in order. Lines end in "\n" or "\r\n"; blanks around a cell are ignored. A file is of
// the older kind if it has a BW, or no I and a W. InvalidArgument, naming row, column and cell, for
// anything that is not of the grammar above, for numbers above 999999, for a mixture of both kinds
// of names, and for a row without actions.
absl::StatusOr<std::vector<std::vector<TorchAction>>> ParseTorchActions(absl::string_view text);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_FILE_FORMATS_TORCH_ACTION_H_
