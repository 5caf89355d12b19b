// Which SEND of a plan meets which RECV.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_MATCH_MESSAGES_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_MATCH_MESSAGES_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// By rank and instruction.
using MatchTable = std::vector<std::vector<int>>;

// For every rank and instruction, the index of the matching instruction on `peer`'s list; -1 where
// the instruction is not a message. InvalidArgument with rank, instruction and both values if two
// do not match.
absl::StatusOr<MatchTable> MatchMessages(const Plan& plan);

// "rank 2, instruction 17 (SEND)".
std::string PlaceOf(int rank, int index, const Instruction& instruction);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_MATCH_MESSAGES_H_
