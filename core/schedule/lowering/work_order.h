// What every rank of a schedule's device does in one step, in order: passes, reductions of
// gradients, and messages to and from other devices. Ranks, samples and frozen work come later
// (lower.h).
//
// Times of the layers on the profile's device give a run in which messages take none. In it
//   - a reduction stands, on each of its members, after what they begin before the last of them has
//     the gradients; all reductions of a device follow on each other as these times do;
//   - a SEND stands right after the pass that makes its data: before a reduction that comes then,
//     after one that other devices were ready for while the pass ran;
//   - a RECV stands where recv_positions.h puts it, at best `recv_lookahead` slots of the schedule
//     before the pass that needs it, but, if more than one slot, no sooner than before what its
//     device runs when the message is sent.
// Such an order cannot deadlock under blocking rendezvous, whatever the times turn out to be.
#ifndef DPIPE_CORE_SCHEDULE_LOWERING_WORK_ORDER_H_
#define DPIPE_CORE_SCHEDULE_LOWERING_WORK_ORDER_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/placement/layout.h"
#include "core/schedule/schedule.h"

namespace dpipe {

enum class SyncPolicy {
  kBucketed,  // each bucket is reduced as soon as its gradients are complete
  kEnd,       // one reduction of each stage after the last pass
};

// Whether weights, gradients and moments of a stage are divided over its ranks, where it has
// several. Its passes then run in parts, each of which is gathered before and released after
// (param_gathers.h); whole gradients are kept until the last micro-batch's are reduced.
enum class ShardPolicy {
  kNone,
  kBuckets,  // in the buckets of gradient reductions
  kStages,   // a stage at once
};

// How long whole weights of a sharded stage are kept.
enum class GatherPolicy {
  kPassByPass,  // ZeRO-3
  kOnce,        // ZeRO-1: from the first pass of a step to the last
};

struct WorkOptions {
  SyncPolicy sync = SyncPolicy::kBucketed;
  int64_t bucket_bytes = 0;
  int recv_lookahead = 1;
  ShardPolicy shard = ShardPolicy::kNone;
  GatherPolicy gather = GatherPolicy::kPassByPass;  // of sharded stages
  bool load_cached = false;  // LOAD_BATCH before the first pass that reads frozen outputs
};

struct WorkItem {
  Instruction::Kind kind = Instruction::KIND_UNSPECIFIED;
  int stage = -1;           // of the schedule
  int micro_batch = -1;     // of the stage's chain
  LayerRange layers;        // empty for messages and LOAD_BATCH
  int peer_stage = -1;      // of a message
  bool activation = false;  // of a message; else gradients
};

// By device. The layout fits the schedule. O(slots + messages), except for searches around receives
// that are moved.
std::vector<std::vector<WorkItem>> OrderWork(const PipelineLayout& layout, const Schedule& schedule,
                                             const WorkOptions& options, const CostModel& cost);

// By stage, whether it is divided under a policy: whether it has more than one rank.
std::vector<bool> ShardedStages(const PipelineLayout& layout, ShardPolicy shard,
                                const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_LOWERING_WORK_ORDER_H_
