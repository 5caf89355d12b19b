#include "tests/testlib/one_device_equivalence.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/testlib/training.h"

namespace dpipe::testlib {
namespace {

absl::Status CheckComparable(const Plan& plan, const MicroBatches& micro_batches) {
  if (plan.num_micro_batches() != micro_batches.count ||
      plan.micro_batch_size() != micro_batches.size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the plan has ", plan.num_micro_batches(), " micro-batches of ", plan.micro_batch_size(),
        ", and the one device has ", micro_batches.count, " of ", micro_batches.size));
  }
  for (const DeviceProgram& device : plan.devices()) {
    bool computes = false;
    for (const Instruction& instruction : device.instructions()) {
      computes |= instruction.kind() == Instruction::FORWARD;
      if (instruction.kind() != Instruction::REDUCE_GRADS) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", device.rank(), " sums gradients with other ranks, in another order"));
    }
    if (!computes) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", device.rank(), " has no pass of a backbone"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Plan> OneDeviceEquivalence::PlanBy(const std::string& strategy,
                                                  int num_devices) const {
  PlanRequest request;
  request.strategy = strategy;
  request.num_devices = num_devices;
  request.num_stages = num_devices;
  request.global_batch = micro_batches_.global_batch();
  request.micro_batch_size = micro_batches_.size;
  request.num_micro_batches = micro_batches_.count;
  const ModelProfile profile = SyntheticProfile(*job_->model, job_->compute_dtype,
                                                job_->frozen_quantum, {micro_batches_.size}, 3);
  DPIPE_ASSIGN_OR_RETURN(Plan plan, MakeTestPlan(profile, request));
  DPIPE_RETURN_IF_ERROR(CheckComparable(plan, micro_batches_));
  return plan;
}

absl::StatusOr<OneDeviceEquivalence> OneDeviceEquivalence::Create(const TrainingJob& job,
                                                                  const MicroBatches& micro_batches,
                                                                  int steps) {
  OneDeviceEquivalence equivalence(job, micro_batches, steps);
  TrainingJob alone = job;
  alone.workers.resize(1);
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, equivalence.PlanBy("data_parallel", 1));
  DPIPE_ASSIGN_OR_RETURN(equivalence.expected_, GradientsOf(alone, plan, steps));
  return equivalence;
}

absl::StatusOr<std::string> OneDeviceEquivalence::FirstDifferenceOf(
    const std::string& strategy) const {
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, PlanBy(strategy, static_cast<int>(job_->workers.size())));
  DPIPE_ASSIGN_OR_RETURN(const auto actual, GradientsOf(*job_, plan, steps_));
  return FirstDifference(expected_, actual);
}

}  // namespace dpipe::testlib
