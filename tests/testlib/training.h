// Short training runs of a model by a named strategy, with a made-up but deterministic profile.
#ifndef DPIPE_TESTS_TESTLIB_TRAINING_H_
#define DPIPE_TESTS_TESTLIB_TRAINING_H_

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/nn/model.h"
#include "core/proto/plan.pb.h"
#include "core/proto/profile.pb.h"
#include "core/train/job.h"

namespace dpipe::testlib {

// Times drawn by (seed, layer): every layer takes 10 to 100 us a sample forward, about as much for
// each gradient.
ModelProfile MadeUpProfile(const nn::Model& model, DType compute_dtype, int frozen_quantum,
                           const std::vector<int>& local_batches, uint64_t seed);

struct PlanRequest {
  std::string strategy;
  int num_devices = 1;
  int global_batch = 8;
  int num_micro_batches = 0;  // 0: search
  int micro_batch_size = 0;
  int num_stages = 0;
};
absl::StatusOr<Plan> MakeTestPlan(const ModelProfile& profile, const PlanRequest& request);
// Of a model with self-conditioning: the plans without and with the extra pass.
struct TestPlans {
  Plan plain, self_conditioned;
};
absl::StatusOr<TestPlans> MakeTestPlans(const ModelProfile& profile, const PlanRequest& request);

struct TrainingOutcome {
  std::vector<double> losses;
  std::map<std::string, Tensor> parameters;
  Trace trace;
};
// Trains `steps` steps in runs of `steps_per_run` (0: all in one), recording the last run.
absl::StatusOr<TrainingOutcome> Train(const TrainingJob& job, const Plan& plan, int steps,
                                      int steps_per_run = 0);

// Empty where losses and parameters are equal bit for bit; else the first difference, in words.
std::string FirstDifference(const TrainingOutcome& a, const TrainingOutcome& b);
// The largest relative difference of the losses, and of parameters relative to their tensor's norm.
double LargestRelativeDifference(const TrainingOutcome& a, const TrainingOutcome& b);
// Below it only the order of fp32 sums differs. The toy model trained by Adam on one device from
// weights that are off by one rounding (2^-24 relatively) ends up to 3.1e-5 away (48 draws): Adam
// scales a gradient that nearly cancels up to the learning rate. Three times that.
constexpr double kRoundingDifference = 1e-4;

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_TRAINING_H_
