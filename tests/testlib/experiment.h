// Trains the toy model by a schedule and compares the results with those of one device.
#ifndef DPIPE_TESTS_TESTLIB_EXPERIMENT_H_
#define DPIPE_TESTS_TESTLIB_EXPERIMENT_H_

#include <string>

#include "core/schedule/schedule.h"
#include "tests/testlib/schedule_plan.h"
#include "tests/testlib/toy_job.h"
#include "tests/testlib/toy_model.h"
#include "tests/testlib/training.h"

namespace dpipe::testlib {

constexpr int kExperimentSteps = 3;

// A model, and how to turn a schedule into a plan.
struct Experiment {
  ToyModelOptions model;
  DType dtype = DType::kF32;
  SchedulePlanOptions plan;
  bool direct = false;  // make the plan without the planning side
};

// The experiment's job.
class ExperimentJob : public ToyJob {
 public:
  ExperimentJob(const Experiment& experiment, int num_devices);
};

absl::StatusOr<Plan> PlanOf(const Experiment& experiment, const Schedule& schedule);

// Trains kExperimentSteps steps.
absl::StatusOr<TrainingOutcome> Train(const Experiment& experiment, const Schedule& schedule);

// Trains by the schedule and on one device, with the same micro-batches. Expects the same losses
// and parameters. They must be bit-identical if there is one copy of the weights. If there are
// several, gradients are added in another order, and they must agree to kRoundingDifference.
void ExpectSame(const Experiment& experiment, const Schedule& schedule, const std::string& what);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_EXPERIMENT_H_
