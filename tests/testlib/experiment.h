// Trains the toy model by a schedule, and compares with one device.
#ifndef DPIPE_TESTS_TESTLIB_EXPERIMENT_H_
#define DPIPE_TESTS_TESTLIB_EXPERIMENT_H_

#include <memory>
#include <string>
#include <vector>

#include "core/schedule/schedule.h"
#include "core/train/job.h"
#include "tests/testlib/schedule_plan.h"
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

// All that a job needs; the job points into it.
class Bench {
 public:
  Bench(const Experiment& experiment, int num_devices);
  const TrainingJob& job() const { return job_; }

 private:
  nn::Model model_;
  ToyParameters parameters_;
  ToyInputs inputs_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
  TrainingJob job_;
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
