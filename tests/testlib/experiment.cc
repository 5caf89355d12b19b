#include "tests/testlib/experiment.h"

#include <cmath>
#include <map>
#include <utility>

#include "core/schedule/builders/list_schedule.h"
#include "gtest/gtest.h"

namespace dpipe::testlib {
namespace {

bool SeveralCopies(const Plan& plan) {
  for (const DeviceProgram& device : plan.devices()) {
    for (const Instruction& instruction : device.instructions()) {
      if (instruction.kind() == Instruction::REDUCE_GRADS) return true;
    }
  }
  return false;
}

// Returns the same chains with all their stages on one device.
Schedule OnOneDevice(const Schedule& schedule) {
  std::map<int, ScheduleChain> by_backbone;
  for (const ScheduleChain& chain : schedule.chains()) {
    ScheduleChain& whole = by_backbone[chain.backbone];
    whole.backbone = chain.backbone;
    whole.num_forward_only = chain.num_forward_only > 0;
    whole.devices.assign(1 + whole.num_forward_only, 0);
    whole.num_micro_batches = schedule.num_micro_batches(chain.backbone);
  }
  std::vector<ScheduleChain> chains;
  for (const auto& [backbone, chain] : by_backbone) chains.push_back(chain);
  ListScheduleOptions options;
  options.split_backward = false;
  auto result = ListSchedule("one-device", chains, options);
  EXPECT_TRUE(result.ok()) << result.status();
  return std::move(result).value();
}

}  // namespace

ExperimentJob::ExperimentJob(const Experiment& experiment, int num_devices)
    : ToyJob(num_devices, experiment.dtype, experiment.model) {
  job().optimizer.max_grad_norm = 0.5;
  job().deadline = absl::Seconds(20);
}

absl::StatusOr<Plan> PlanOf(const Experiment& experiment, const Schedule& schedule) {
  const nn::Model model = MakeToyModel(experiment.model);
  if (experiment.direct) {
    return MakeDirectPlan(model, schedule, experiment.plan);
  }
  return MakeLoweredPlan(model, experiment.dtype, schedule, experiment.plan);
}

absl::StatusOr<TrainingOutcome> Train(const Experiment& experiment, const Schedule& schedule) {
  DPIPE_ASSIGN_OR_RETURN(const Plan plan, PlanOf(experiment, schedule));
  return Train(ExperimentJob(experiment, plan.num_devices()).job(), plan, kExperimentSteps);
}

void ExpectSame(const Experiment& experiment, const Schedule& schedule, const std::string& what) {
  Experiment alone = experiment;
  alone.plan = {};
  alone.plan.micro_batch_sizes = experiment.plan.micro_batch_sizes;
  Schedule one = OnOneDevice(schedule);
  if (experiment.plan.num_groups > 1) {  // also the groups' samples, as more micro-batches
    std::vector<ScheduleChain> chains = one.chains();
    for (ScheduleChain& chain : chains) chain.num_micro_batches *= experiment.plan.num_groups;
    one = *ListSchedule("one-device", chains, {});
  }
  const auto expected = Train(alone, one);
  ASSERT_TRUE(expected.ok()) << what << ": " << expected.status();
  const auto actual = Train(experiment, schedule);
  ASSERT_TRUE(actual.ok()) << what << ": " << actual.status();
  if (SeveralCopies(*PlanOf(experiment, schedule))) {
    EXPECT_LT(LargestRelativeDifference(*expected, *actual), kRoundingDifference) << what;
  } else {
    EXPECT_EQ(FirstDifference(*expected, *actual), "") << what;
  }
  for (double loss : expected->losses) EXPECT_TRUE(std::isfinite(loss) && loss > 0);
}

}  // namespace dpipe::testlib
