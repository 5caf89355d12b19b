// The ranks of //bench:communication: which there are, and what they measure together.
#ifndef DPIPE_BENCH_COMMUNICATION_RANKS_H_
#define DPIPE_BENCH_COMMUNICATION_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bench/communication_probe.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/tensor/cuda/driver.h"
#include "core/tensor/device.h"

namespace dpipe::bench {

struct CommunicationOptions {
  std::vector<int64_t> sizes_bytes;
  ProbeOptions probe;
};

// What one transport does with so many ranks: all traffic in its order, each by size.
struct CommunicationTimes {
  std::string transport;
  int num_ranks = 0;
  std::vector<TrafficTime> times;
};

// One rank's part in all of it, on its device's thread; see MeasureTraffic.
absl::StatusOr<std::vector<TrafficTime>> MeasureAllTraffic(Communicator* communicator,
                                                           const std::shared_ptr<Device>& device,
                                                           const CommunicationOptions& options);

// Ranks that are threads of this process, one a device. The first error of any ends all.
absl::StatusOr<CommunicationTimes> MeasureThreads(
    const std::string& transport, const std::vector<std::shared_ptr<Device>>& devices,
    const std::vector<std::unique_ptr<Communicator>>& communicators,
    const CommunicationOptions& options);

// Ranks that are the processes of a job, of which this is one; all call this alike, and get the
// same. `backend` is DeviceRequest's: GPUs talk over NCCL, CPUs over Gloo. `deadline` is JobRank's.
// FailedPrecondition where the devices do not go together, or there is no GPU for "cuda", DataLoss
// for a wrong answer; the first error of any ends all.
absl::StatusOr<CommunicationTimes> MeasureProcesses(const std::string& backend,
                                                    absl::Duration deadline,
                                                    const CommunicationOptions& options,
                                                    ProcessGroup* processes);

// Cores for threads, divided as among as many processes: shared where there are too few.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> CoresForRanks(int num_ranks);

// All GPUs that `driver` finds. FailedPrecondition where there are fewer than two, Unimplemented
// where this program was built without CUDA.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> GpusForNccl(
    const std::function<absl::StatusOr<cuda::Driver*>()>& driver);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMMUNICATION_RANKS_H_
