// How early a stage can post the receive of a slot's input.
#ifndef DPIPE_CORE_SCHEDULE_RECV_POSITIONS_H_
#define DPIPE_CORE_SCHEDULE_RECV_POSITIONS_H_

#include <vector>

#include "core/schedule/schedule.h"

namespace dpipe {

// How many slots earlier than the slot that needs it an input is received.
struct RecvLookahead {
  int activation = 0;
  int gradient = 0;
};

// result[s][k]: the slot of stage s before which the input that its slot k gets from another stage
// is to be received: at most the lookahead before k, and never before a slot that the sender's pass
// depends on, which would be a deadlock under rendezvous. k itself for slots that receive nothing.
//
// The slots that a pass depends on are, on every stage, a prefix of its order, so one number per
// stage (a vector clock) holds them: O(slots x stages).
std::vector<std::vector<int>> RecvPositions(const Schedule& schedule,
                                            const RecvLookahead& lookahead);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_RECV_POSITIONS_H_
