// Makes plans from a schedule and random cuts, in two ways.
#ifndef DPIPE_TESTS_TESTLIB_SCHEDULE_PLAN_H_
#define DPIPE_TESTS_TESTLIB_SCHEDULE_PLAN_H_

#include <cstdint>
#include <vector>

#include "core/base/range.h"
#include "core/base/status.h"
#include "core/nn/model.h"
#include "core/proto/plan.pb.h"
#include "core/schedule/schedule.h"
#include "core/tensor/dtype.h"

namespace dpipe::testlib {

struct SchedulePlanOptions {
  int num_groups = 1;
  std::vector<int> replicas = {};           // by device; empty: one rank each
  std::vector<int> micro_batch_sizes = {};  // by backbone; empty: one sample
  bool recompute = false;                   // every stage that has backward passes
  int recompute_blocks = 1;                 // maximum per stage, divided at random layers
  // Divides stages over their ranks. In a direct plan, the layers of each half of a stage are
  // gathered, used, reduced and released pass by pass.
  bool sharded = false;
  // For lowered plans:
  bool gathers_once = false;             // GatherPolicy::kOnce for LowerOptions.gather
  bool reduce_each_micro_batch = false;  // LowerOptions.reduce_each_micro_batch
  int frozen_quantum = 1;
  int recv_lookahead = 1;  // LowerOptions.recv_lookahead
  // By rank of a group: true if it runs the model's last frozen component, in plans that fill gaps
  // with the next step's frozen work. Empty: frozen work is distributed evenly and runs first.
  std::vector<bool> frozen_hosts = {};
  uint64_t seed = 1;  // for the cuts of the backbones
};

// Makes a plan by the planning side with a made-up profile, and verifies it. Returns
// InvalidArgument if the options do not fit the schedule.
absl::StatusOr<Plan> MakeLoweredPlan(const nn::Model& model, DType dtype, const Schedule& schedule,
                                     const SchedulePlanOptions& options = {});

// Makes the simplest possible plan, without profile or cluster. Messages are beside the passes that
// produce and need them. Every rank runs the frozen components first, for its whole group, and
// gradients are reduced at the end. There are no predictions, and messages have no sizes. Cannot
// deadlock if sending does not block.
absl::StatusOr<Plan> MakeDirectPlan(const nn::Model& model, const Schedule& schedule,
                                    const SchedulePlanOptions& options = {});

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_SCHEDULE_PLAN_H_
