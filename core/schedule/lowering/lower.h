// Lowers a layout (a partition) and a schedule to a Plan: every instruction and message of every
// device.
//
// The order of passes, reductions and messages comes from work_order.h and cannot deadlock. The
// contents of a message between stages come from boundary.h. Consecutive stages on the same device
// exchange values inside the rank, without messages.
//
// If neighbouring stages have different numbers of replicas, a message carries the samples common
// to two ranks (layout.h defines which rank has which), in the order of resharding.h.
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
  int frozen_quantum = 0;                    // in samples; 0: the profile's
  int max_frozen_batch = 0;  // kFirst, kFirstStage: maximum samples per FROZEN_FORWARD; 0: no limit
  bool global_norm = true;
  int recv_lookahead = 1;
  ShardPolicy shard = ShardPolicy::kNone;
  GatherPolicy gather = GatherPolicy::kPassByPass;  // of sharded stages
  bool reduce_each_micro_batch = false;             // as in WorkOptions
  // Puts the exchange of the next step's frozen outputs between two FLUSHes. It then ends before
  // the optimizer step and shares links with no other messages.
  bool flush_exchange = false;
  std::string compression;  // Plan.compression
  // False: leaves the fingerprints of profile and cluster empty. For plans that are only simulated:
  // hashing a profile can take as long as the simulation.
  bool fingerprints = true;
  // If set, the plan is relaxed (relaxation.h). Must not be combined with fill items.
  std::optional<Relaxation> relaxation;
  // For kFill. If empty, the result is the unfilled plan, which is not valid but can be simulated.
  std::vector<FillItem> fill;
};

// Returns the plan, without a prediction. InvalidArgument, with both values, if layout, schedule,
// options and cost model do not fit together. The plan is valid (verify.h) unless fill items are
// missing; only VerifyPlan detects that.
absl::StatusOr<Plan> LowerPlan(const PipelineLayout& layout, const Schedule& schedule,
                               const LowerOptions& options, const CostModel& cost);

// Returns the indices of all instructions except SEND and RECV. FillItem::position is an index into
// this list.
std::vector<int> ComputeInstructions(const DeviceProgram& program);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_LOWERING_LOWER_H_
