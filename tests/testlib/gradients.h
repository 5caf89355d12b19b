// The gradients that a plan computes, step by step, as its optimizer sees them.
#ifndef DPIPE_TESTS_TESTLIB_GRADIENTS_H_
#define DPIPE_TESTS_TESTLIB_GRADIENTS_H_

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/plan.pb.h"
#include "core/train/job.h"

namespace dpipe::testlib {

struct StepGradients {
  std::vector<std::vector<float>> sample_losses;  // by backbone and sample
  std::map<std::string, Tensor> gradients;        // whole, by parameter
};

// Trains `steps` steps by plain gradient descent, so that nothing evens out what is wrong. On any
// devices; the gradients are the host's, and the host updates the weights.
// Internal, with the parameter's name, where two ranks of this process that hold the same one see
// different bits. Of a job of several processes all call this, and the first gets the gradients.
absl::StatusOr<std::vector<StepGradients>> GradientsOf(const TrainingJob& job, const Plan& plan,
                                                       int steps);

// Empty where all losses and gradients are equal bit for bit; else the first difference, in words.
std::string FirstDifference(const std::vector<StepGradients>& a,
                            const std::vector<StepGradients>& b);
// The largest relative difference of a loss, and of a gradient relative to its tensor's norm.
double LargestRelativeDifference(const std::vector<StepGradients>& a,
                                 const std::vector<StepGradients>& b);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_GRADIENTS_H_
