// Trains the toy model by a schedule, and compares with one device.
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

// What to run: a model, and how a schedule becomes a plan.
struct Experiment {
  ToyModelOptions model;
  DType dtype = DType::kF32;
  SchedulePlanOptions plan;
  bool direct = false;  // whether the plan is made without the planning side
};

// The experiment's job.
class Bench : public ToyJob {
 public:
  Bench(const Experiment& experiment, int num_devices);
};

absl::StatusOr<Plan> PlanOf(const Experiment& experiment, const Schedule& schedule);

// kExperimentSteps steps.
absl::StatusOr<TrainingOutcome> Train(const Experiment& experiment, const Schedule& schedule);

// Trains by the schedule and on one device, with the same micro-batches. Expects the same losses
// and parameters, bit for bit where there is one copy of the weights, and to 1e-5 where there are
// several, because gradients are then added in another order.
void ExpectSame(const Experiment& experiment, const Schedule& schedule, const std::string& what);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_EXPERIMENT_H_
