// A step's losses and gradients without plan, schedule or runtime. The whole global batch goes
// through the model at once on this thread, and back from the mean of its losses.
#ifndef DPIPE_TESTS_TESTLIB_WHOLE_BATCH_H_
#define DPIPE_TESTS_TESTLIB_WHOLE_BATCH_H_

#include "core/base/status.h"
#include "core/train/job.h"
#include "tests/testlib/gradients.h"

namespace dpipe::testlib {

// Computes the first step in fp32, without a self-conditioning estimate. For several backbones,
// returns the gradients of the sum of their mean losses.
absl::StatusOr<StepGradients> WholeBatchGradients(const TrainingJob& job, int global_batch);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_WHOLE_BATCH_H_
