// Messages between neighbouring stages that split a micro-batch over different numbers of ranks.
// Each sender sends each receiver the intersection of their sample intervals. (This is the
// cross-mesh resharding of Zhuang et al., arXiv 2211.05322, for values split by samples only: every
// sample has one possible sender, so only the order of messages remains to be planned.)
//
// Model: a rank sends one message at a time and receives one at a time, in list order. Call the
// side with fewer ranks coarse, the other one fine. A coarse rank's messages partition its
// interval; a fine rank has one message, or two if it straddles a border between coarse ranks.
//
// Order: by position within the coarse rank's interval, so that all coarse ranks go through their
// intervals from the front at the same time. A straddling rank moves its later samples first, as
// they are at the front of the second coarse rank's interval, and its earlier samples last. It is
// free again by then, because its whole share is at most a coarse rank's share. So no coarse rank
// ever waits, and the total time is that of the busiest engine, which is a lower bound.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_RESHARDING_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_RESHARDING_H_

#include <vector>

#include "core/base/range.h"

namespace dpipe {

struct ReshardingMessage {
  int from = 0;         // the sender's index in its stage
  int to = 0;           // the receiver's index in its stage
  SampleRange samples;  // of the micro-batch
};

// Returns the messages in the order in which ranks serve them: each rank takes its own messages in
// list order. `senders` and `receivers` must divide `micro_batch_size`. Returns at most
// senders + receivers - 1 messages.
std::vector<ReshardingMessage> ReshardingMessages(int micro_batch_size, int senders, int receivers);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_RESHARDING_H_
