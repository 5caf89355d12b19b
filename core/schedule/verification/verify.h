// The proof that a plan computes a training step, before anything runs it.
//
// VerifyPlan returns OK only if
//   - header, stages and ranks are consistent with each other, the profile and the cluster;
//   - every sample goes forward and backward once through every backbone layer, and once through
//     every frozen layer (none with cached outputs), after its inputs are loaded;
//   - whatever an instruction reads was made or received by an earlier instruction of its rank;
//     outputs of frozen components, of this step or the step before, reach every stage that reads
//     them;
//   - gradients are added in micro-batch order and reduced once when complete, and then the
//     optimizer steps;
//   - sends and receives pair up, in order and with equal content, and `bytes` matches the profile;
//   - the prologue, the steady step and the last step run to completion under blocking rendezvous
//     (rendezvous.h);
//   - no rank needs more memory than it has (memory.h).
// A message names the rank, the instruction's index, and the actual and the expected value.
#ifndef DPIPE_CORE_SCHEDULE_VERIFICATION_VERIFY_H_
#define DPIPE_CORE_SCHEDULE_VERIFICATION_VERIFY_H_

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// InvalidArgument if the plan is wrong; ResourceExhausted if it only needs too much memory.
absl::Status VerifyPlan(const Plan& plan, const ModelProfile& profile, const ClusterSpec& cluster);
absl::Status VerifyPlan(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_VERIFICATION_VERIFY_H_
