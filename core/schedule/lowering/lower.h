// From a partition and a schedule to a Plan: every instruction and message of every device.
//
// Where neighbouring stages are replicated differently, a message carries the common part of two
// ranks' samples (layout.h says who has which), in the order of resharding.h.
//
// The order of passes, reductions and messages, which cannot deadlock, is work_order.h's. What a
// message carries is boundary.h's. Stages that follow on each other on one device hand over inside
// the rank, without messages.
#ifndef DPIPE_CORE_SCHEDULE_LOWERING_LOWER_H_
#define DPIPE_CORE_SCHEDULE_LOWERING_LOWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/lowering/work_order.h"
#include "core/schedule/placement/frozen_placement.h"
#include "core/schedule/placement/layout.h"
#include "core/schedule/schedule.h"

namespace dpipe {

struct LowerOptions {
  std::string strategy;  // Plan.strategy
  FrozenPolicy frozen = FrozenPolicy::kFirst;
  SyncPolicy sync = SyncPolicy::kBucketed;
  int64_t bucket_bytes = int64_t{25} << 20;  // a bucket is closed when its gradients reach this
  int frozen_quantum = 0;                    // 0: the profile's
  int max_frozen_batch = 0;  // kFirst: the largest local batch of frozen work; 0: all at once
  bool global_norm = true;
  int recv_lookahead = 1;
  ShardPolicy shard = ShardPolicy::kNone;
  GatherPolicy gather = GatherPolicy::kPassByPass;  // of sharded stages
  // The exchange of the next step's frozen outputs stands between two FLUSHes, so that it is over
  // before the optimizer step and shares links with nothing.
  bool flush_exchange = false;
  std::string compression;  // Plan.compression
  // Set: the plan is relaxed (relaxation.h), and not filled.
  std::optional<Relaxation> relaxation;
  // kFill. Empty: the unfilled plan, which is no valid plan but can be simulated.
  std::vector<FillItem> fill;
};

// InvalidArgument, with both values, if layout, schedule, options and cost model do not fit each
// other. The result carries the fingerprints and no prediction. It is valid (verify.h) unless fill
// items were missing, which only VerifyPlan finds.
absl::StatusOr<Plan> LowerPlan(const PipelineLayout& layout, const Schedule& schedule,
                               const LowerOptions& options, const CostModel& cost);

// The indices of the instructions that are not SEND or RECV: what FillItem.position counts.
std::vector<int> ComputeInstructions(const DeviceProgram& program);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_LOWERING_LOWER_H_
