// Messages between neighbouring stages that divide a micro-batch over unlike numbers of ranks:
// every receiver gets from each sender the samples that both have, the intersections of their
// intervals. ("Cross-mesh resharding", Zhuang et al., arXiv 2211.05322, where values are split by
// samples only: no sample has two senders to choose from, so what is left to plan is the order.)
//
// A rank sends one message at a time and receives one at a time, in list order. Call the side of
// fewer ranks coarse. A coarse rank's messages lie side by side in its interval; a fine rank has
// one, or two where it straddles a border between coarse ranks. The order is by place within the
// coarse rank's interval: all coarse ranks go through their intervals from the front, at once, so a
// straddler's later samples, at the front of the second coarse rank's interval, move first, and its
// earlier ones last. It is free again by then: its whole share is no larger than a coarse one. No
// coarse rank ever waits, and all is done when the busiest engine is, which nothing can beat.
#ifndef DPIPE_CORE_SCHEDULE_MESSAGES_RESHARDING_H_
#define DPIPE_CORE_SCHEDULE_MESSAGES_RESHARDING_H_

#include <vector>

#include "core/base/range.h"

namespace dpipe {

struct ReshardingMessage {
  int from = 0;         // number of the sender in its stage
  int to = 0;           // number of the receiver in its stage
  SampleRange samples;  // of the micro-batch
};

// In the order in which ranks serve them: each rank takes its own ones in list order. `senders` and
// `receivers` divide `micro_batch_size`. At most senders + receivers - 1 messages.
std::vector<ReshardingMessage> ReshardingMessages(int micro_batch_size, int senders, int receivers);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_MESSAGES_RESHARDING_H_
