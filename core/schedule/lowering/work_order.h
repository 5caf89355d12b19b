// The work of every device in one step, in order: passes, gradient reductions, and messages to and
// from other devices. Every rank of a device has the same order. Lowering adds ranks, samples and
// frozen work (lower.h).
//
// Layer times on the profile's device give a run in which messages take no time. In that run
//   - a reduction comes, on each of its members, after the work that starts before the last member
//     has the gradients; a device's reductions are ordered by these times;
//   - a SEND comes right after the pass that makes its data: before a reduction that follows the
//     pass, but after a reduction that could start while the pass ran;
//   - a RECV comes where recv_positions.h puts it. Preferred is `recv_lookahead` slots before the
//     pass that needs it. If that is more than one slot, the RECV is not posted before the work
//     that its device runs when the message is sent.
// Such an order cannot deadlock under blocking rendezvous, whatever the actual times are.
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
  kEnd,       // one reduction per stage after the last pass
};

// Whether a stage on several ranks divides its weights, gradients and moments over them. Its passes
// then run in parts; each part is gathered before a pass and released after it (param_gathers.h).
// Unsharded gradients are kept until they are reduced, in buckets of one or more parts: after the
// last micro-batch, or after each one (WorkOptions::reduce_each_micro_batch), so that only shards
// accumulate.
enum class ShardPolicy {
  kNone,
  kBuckets,  // parts are buckets of what is divided (gradient_buckets.h)
  kStages,   // the whole stage is one part
};

// How long a sharded stage keeps its gathered weights, and which weights are divided.
enum class GatherPolicy {
  kPassByPass,  // ZeRO-3: all weights
  kOnce,        // ZeRO-1: from the first to the last pass of a step; only trained weights
};

struct WorkOptions {
  SyncPolicy sync = SyncPolicy::kBucketed;
  int64_t bucket_bytes = 0;
  int recv_lookahead = 1;
  ShardPolicy shard = ShardPolicy::kNone;
  GatherPolicy gather = GatherPolicy::kPassByPass;  // of sharded stages
  bool load_cached = false;  // adds LOAD_BATCH before the first pass that reads frozen outputs
  // Reduces the gradients of sharded stages after each micro-batch, whatever `sync` says. Costs as
  // many reductions as there are micro-batches, and saves the unsharded gradients of all parts.
  bool reduce_each_micro_batch = false;
};

struct WorkItem {
  Instruction::Kind kind = Instruction::KIND_UNSPECIFIED;
  int stage = -1;           // of the schedule
  int micro_batch = -1;     // of the stage's chain
  LayerRange layers;        // empty for messages and LOAD_BATCH
  int peer_stage = -1;      // messages only
  bool activation = false;  // messages only; false: gradients
};

// Returns the work of each device. The layout must fit the schedule. Time O(slots + messages), plus
// the searches of receives that are moved (recv_positions.h).
std::vector<std::vector<WorkItem>> OrderWork(const PipelineLayout& layout, const Schedule& schedule,
                                             const WorkOptions& options, const CostModel& cost);

// Returns, by stage, whether it is sharded under a policy: true if it has more than one rank.
std::vector<bool> ShardedStages(const PipelineLayout& layout, ShardPolicy shard,
                                const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_LOWERING_WORK_ORDER_H_
