// Trains on GPUs of a fake driver, which runs our kernels on the CPU.
#ifndef DPIPE_TESTS_TESTLIB_FAKE_GPUS_H_
#define DPIPE_TESTS_TESTLIB_FAKE_GPUS_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/train/job.h"
#include "tests/testlib/training.h"

namespace dpipe::testlib {

// For LocalSessionOptions::connect, with devices whose memory the host cannot read.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectPeers(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline);

// Trains on as many virtual GPUs as the plan has devices; `job` needs no workers. The process
// crashes if host code touches their memory. Returns Internal if the driver was used incorrectly.
absl::StatusOr<TrainingOutcome> TrainOnFakeGpus(TrainingJob job, const Plan& plan, int steps);

}  // namespace dpipe::testlib

#endif  // DPIPE_TESTS_TESTLIB_FAKE_GPUS_H_
