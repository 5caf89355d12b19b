// The proof that a plan computes a training step, before anything runs it.
//
// VerifyPlan returns OK only if
//   - header, stages and ranks are consistent with each other, the profile and the cluster;
//   - every backbone layer x sample is computed forward and backward once, every frozen layer x
//   sample once
//     (none with cached outputs), inputs loaded before;
//   - whatever an instruction reads was made by an earlier instruction of its rank or received by
//   it; outputs
//     of frozen components reach every stage that reads them, from this step or the step before;
//   - gradients are added in micro-batch order, reduced once when complete, and then the optimizer
//   steps;
//   - sends and receives pair up, in order, with equal content, and bytes are what the profile
//   says;
//   - prologue, steady step and last step run to their end under blocking rendezvous
//   (rendezvous.h);
//   - no rank needs more memory than it has (memory.h).
// A message names the rank, the instruction's index and both values.
#ifndef DPIPE_CORE_SCHEDULE_VERIFICATION_VERIFY_H_
#define DPIPE_CORE_SCHEDULE_VERIFICATION_VERIFY_H_

#include "core/base/status.h"
#include "core/cost/cost_model.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"

namespace dpipe {

// InvalidArgument if the plan is wrong; ResourceExhausted if only its memory is.
absl::Status VerifyPlan(const Plan& plan, const ModelProfile& profile, const ClusterSpec& cluster);
absl::Status VerifyPlan(const Plan& plan, const CostModel& cost);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_VERIFICATION_VERIFY_H_
