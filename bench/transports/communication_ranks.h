// The ranks of //bench:communication and their joint measurements.
#ifndef DPIPE_BENCH_TRANSPORTS_COMMUNICATION_RANKS_H_
#define DPIPE_BENCH_TRANSPORTS_COMMUNICATION_RANKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "bench/transports/communication_probe.h"
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

// Times of one transport and number of ranks: by kind of traffic in AllTraffic's order, then by
// size.
struct CommunicationTimes {
  std::string transport;
  int num_ranks = 0;
  std::vector<TrafficTime> times;
};

// Runs one rank's part of all measurements, on its device's thread; see MeasureTraffic.
absl::StatusOr<std::vector<TrafficTime>> MeasureAllTraffic(Communicator* communicator,
                                                           const std::shared_ptr<Device>& device,
                                                           const CommunicationOptions& options);

// Measures between threads of this process, one per device. The first error of any rank ends all.
absl::StatusOr<CommunicationTimes> MeasureThreads(
    const std::string& transport, const std::vector<std::shared_ptr<Device>>& devices,
    const std::vector<std::unique_ptr<Communicator>>& communicators,
    const CommunicationOptions& options);

// Measures between the processes of a job. All call it with the same arguments and get the same
// times. `backend` is DeviceRequest's: GPUs use NCCL, CPUs use Gloo. `deadline` is JobRank's.
// Returns FailedPrecondition if the devices are incompatible or there is no GPU for "cuda", and
// DataLoss if a result is wrong. The first error of any rank ends all.
absl::StatusOr<CommunicationTimes> MeasureProcesses(const std::string& backend,
                                                    absl::Duration deadline,
                                                    const CommunicationOptions& options,
                                                    ProcessGroup* processes);

// Returns the cores for `num_ranks` threads, divided as among processes; shared if there are too
// few.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> CoresForRanks(int num_ranks);

// Returns all GPUs that `driver` finds. Returns FailedPrecondition if there are fewer than two, and
// Unimplemented if this program was built without CUDA.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> GpusForNccl(
    const std::function<absl::StatusOr<cuda::Driver*>()>& driver);

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_TRANSPORTS_COMMUNICATION_RANKS_H_
