// Plans from a schedule and random cuts, in two ways.
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
  // Stages are divided over their ranks. Of a direct plan, the layers of each half of a stage are
  // gathered, used, reduced and released, pass by pass.
  bool sharded = false;
  // Of lowered plans:
  int frozen_quantum = 1;
  int recv_lookahead = 1;  // LowerOptions.recv_lookahead
  // By rank of a group: whether it runs the model's last frozen component, in plans whose next
  // step's frozen work is in their gaps; empty: frozen work is shared out evenly and goes first.
  std::vector<bool> frozen_hosts = {};
  uint64_t seed = 1;  // of where each backbone is cut
};

// By the planning side, with a made-up profile; verified. InvalidArgument where the options and the
// schedule do not fit.
absl::StatusOr<Plan> MakeLoweredPlan(const nn::Model& model, DType dtype, const Schedule& schedule,
                                     const SchedulePlanOptions& options = {});

// As simply as can be, without profile or cluster. Messages stand beside the passes that make and
// need them, frozen components run first of all on every rank for its whole group, gradients are
// reduced at the end; there are no predictions, and messages have no sizes. It does not deadlock
// where sending does not block.
absl::StatusOr<Plan> MakeDirectPlan(const nn::Model& model, const Schedule& schedule,
                                    const SchedulePlanOptions& options = {});

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_SCHEDULE_PLAN_H_
