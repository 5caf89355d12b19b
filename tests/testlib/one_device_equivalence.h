// Checks that pipelines compute the same as one of their devices alone, bit for bit.
//
// Bits agree only if sums are taken in the same order. So the one device trains on the same
// micro-batches as the pipeline, with equally many samples each. It is also one of the pipeline's
// own devices: a virtual GPU of the same size, for which libraries choose the same engines.
#ifndef DPIPE_TESTS_TESTLIB_ONE_DEVICE_EQUIVALENCE_H_
#define DPIPE_TESTS_TESTLIB_ONE_DEVICE_EQUIVALENCE_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/train/job.h"
#include "tests/testlib/gradients.h"

namespace dpipe::testlib {

struct MicroBatches {
  int count = 4;
  int size = 1;  // in samples
  int global_batch() const { return count * size; }
};

class OneDeviceEquivalence {
 public:
  // Trains `steps` steps on the job's first device alone. The job has the devices of the pipelines
  // and must outlive this object.
  static absl::StatusOr<OneDeviceEquivalence> Create(const TrainingJob& job,
                                                     const MicroBatches& micro_batches, int steps);

  // Trains by the strategy in a pipeline over all of the job's devices, and compares losses and
  // gradients of every step. Describes the first difference, or returns "" if all are
  // bit-identical. Returns InvalidArgument if the plan does not promise that: gradients are summed
  // over ranks, micro-batches differ, or a device has no pass. Also returns errors of planning and
  // training.
  absl::StatusOr<std::string> FirstDifferenceOf(const std::string& strategy) const;

  const std::vector<StepGradients>& expected() const { return expected_; }

 private:
  OneDeviceEquivalence(const TrainingJob& job, const MicroBatches& micro_batches, int steps)
      : job_(&job), micro_batches_(micro_batches), steps_(steps) {}
  absl::StatusOr<Plan> PlanBy(const std::string& strategy, int num_devices) const;

  const TrainingJob* job_;
  MicroBatches micro_batches_;
  int steps_;
  std::vector<StepGradients> expected_;
};

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_ONE_DEVICE_EQUIVALENCE_H_
