// Matches every SEND of a plan with its RECV.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_MATCH_MESSAGES_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_MATCH_MESSAGES_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/plan.pb.h"

namespace dpipe {

// The index of the matching instruction, by rank and instruction.
using MatchTable = std::vector<std::vector<int>>;

// Returns, for every rank and instruction, the index of the matching instruction in the list of its
// `peer`, or -1 if the instruction is not a message. Messages from one rank to another are matched
// in list order. InvalidArgument, with rank, instruction and both values, if two do not match or
// one has no counterpart.
absl::StatusOr<MatchTable> MatchMessages(const Plan& plan);

// Returns the name of an instruction for messages: "rank 2, instruction 17 (SEND)".
std::string PlaceOf(int rank, int index, const Instruction& instruction);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_MATCH_MESSAGES_H_
