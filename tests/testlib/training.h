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

// Returns a profile with times drawn by (seed, layer). Every layer takes 10 to 100 us per sample
// forward, and about as much for each gradient.
ModelProfile SyntheticProfile(const nn::Model& model, DType compute_dtype, int frozen_quantum,
                              const std::vector<int>& local_batches, uint64_t seed);

struct PlanRequest {
  std::string strategy;
  int num_devices = 1;
  int global_batch = 8;
  int num_micro_batches = 0;  // 0: search
  int micro_batch_size = 0;
  int num_stages = 0;
  int64_t memory_bytes = 0;  // per device; 0: unlimited
};
absl::StatusOr<Plan> MakeTestPlan(const ModelProfile& profile, const PlanRequest& request);
// The plans of a model with self-conditioning: without and with the extra pass.
struct TestPlans {
  Plan plain, self_conditioned;
};
absl::StatusOr<TestPlans> MakeTestPlans(const ModelProfile& profile, const PlanRequest& request);

struct TrainingOutcome {
  std::vector<double> losses;
  std::map<std::string, Tensor> parameters;
  Trace trace;
};
// Trains `steps` steps in runs of `steps_per_run` (0: all in one run). Records the last run.
absl::StatusOr<TrainingOutcome> Train(const TrainingJob& job, const Plan& plan, int steps,
                                      int steps_per_run = 0);

// Describes the first difference, or returns "" if losses and parameters are bit-identical.
std::string FirstDifference(const TrainingOutcome& a, const TrainingOutcome& b);
// Returns the maximum relative difference of losses, and of parameters relative to their tensor's
// norm.
double LargestRelativeDifference(const TrainingOutcome& a, const TrainingOutcome& b);
// Smaller differences are due to the order of fp32 sums alone. Weights that are off by one rounding
// (2^-24 relatively) change the toy model by up to 3.1e-5 (48 draws) when it is trained by Adam on
// one device. Adam scales a gradient that nearly cancels up to the learning rate. The bound is
// three times that.
constexpr double kRoundingDifference = 1e-4;

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_TRAINING_H_
