#include "tests/testlib/fake_gpus.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/comm/peer_communicator.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"

namespace dpipe::testlib {

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectPeers(
    const std::vector<std::shared_ptr<Device>>& devices, absl::Duration deadline) {
  InProcessOptions options;
  options.deadline = deadline;
  return CreatePeerCommunicators(devices, options);
}

absl::StatusOr<TrainingOutcome> TrainOnFakeGpus(TrainingJob job, const Plan& plan, int steps) {
  cuda::FakeDriver driver;
  driver.HideMemory();
  TrainingOutcome outcome;
  {
    DPIPE_ASSIGN_OR_RETURN(const auto devices,
                           cuda::CreateVirtualCudaDevices(&driver, plan.num_devices()));
    const auto workers = StartWorkers(devices);
    job.workers.clear();
    for (const auto& worker : workers) job.workers.push_back(worker.get());
    job.connect = ConnectPeers;
    DPIPE_ASSIGN_OR_RETURN(outcome, Train(job, plan, steps));
  }
  if (!driver.violations().empty() || driver.num_live_handles() != 0) {
    return absl::InternalError(absl::StrCat(driver.num_live_handles(), " handles left open; ",
                                            absl::StrJoin(driver.violations(), "; ")));
  }
  return outcome;
}

}  // namespace dpipe::testlib
