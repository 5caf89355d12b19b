// The gradients that a plan computes in each step, as its optimizer sees them.
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
  std::map<std::string, Tensor> gradients;        // complete, by parameter
};

// Trains `steps` steps by plain gradient descent, which does not hide errors as an adaptive
// optimizer would. Works on any devices: gradients are copied to the host, and the host updates the
// weights.
//
// Returns Internal, with the parameter's name, if two ranks of this process that hold the same
// parameter see different bits. In a job of several processes, all call this, and the first gets
// the gradients.
absl::StatusOr<std::vector<StepGradients>> GradientsOf(const TrainingJob& job, const Plan& plan,
                                                       int steps);

// Describes the first difference, or returns "" if all losses and gradients are bit-identical.
std::string FirstDifference(const std::vector<StepGradients>& a,
                            const std::vector<StepGradients>& b);
// Returns the maximum relative difference of losses, and of gradients relative to their tensor's
// norm.
double LargestRelativeDifference(const std::vector<StepGradients>& a,
                                 const std::vector<StepGradients>& b);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_GRADIENTS_H_
