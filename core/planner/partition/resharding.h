// Messages between stages that divide a micro-batch over unlike numbers of ranks: every receiver
// gets, from each sender, the samples that both have. "Cross-mesh resharding" (Zhuang et al., arXiv
// 2211.05322) for values that are split by samples only, so no sample has two senders to choose
// from: what is left to plan is the order.
//
// A rank sends one message at a time and receives one at a time. The order below is the one in
// which no engine ever waits that need not, so the whole takes as long as the busiest engine.
#ifndef DPIPE_CORE_PLANNER_PARTITION_RESHARDING_H_
#define DPIPE_CORE_PLANNER_PARTITION_RESHARDING_H_

#include <vector>

#include "core/base/range.h"

namespace dpipe {

struct ReshardingMessage {
  int from = 0;         // number of the sender in its stage
  int to = 0;           // number of the receiver in its stage
  SampleRange samples;  // of the micro-batch
};

// The interval intersections, by receiver and sender. `senders` and `receivers` divide
// `micro_batch_size`. At most senders + receivers - 1 messages.
std::vector<ReshardingMessage> ReshardingMessages(int micro_batch_size, int senders, int receivers);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_RESHARDING_H_
