// Measures the speed of messages and collectives on any transport, and checks their results.
#ifndef DPIPE_BENCH_TRANSPORTS_COMMUNICATION_PROBE_H_
#define DPIPE_BENCH_TRANSPORTS_COMMUNICATION_PROBE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/comm/communicator.h"
#include "core/tensor/device.h"

namespace dpipe::bench {

enum class Traffic {
  kSendReceive,    // from rank 0 to rank 1: half a round trip
  kBroadcast,      // from rank 0 to every other rank, one message each
  kAllReduce,      // in place
  kReduceScatter,  // added to each rank's shard
  kAllGather,
};
const std::vector<Traffic>& AllTraffic();
const char* TrafficName(Traffic traffic);  // "all-reduce"

struct TrafficTime {
  Traffic traffic = Traffic::kSendReceive;
  int num_ranks = 0;
  int64_t size_bytes = 0;  // whole tensor
  int repeats = 0;
  Nanos median_ns = 0;  // of a repeat, until the last rank is done
  Nanos fastest_ns = 0;
  Nanos slowest_ns = 0;
};

// Returns bytes per second: the tensor's size over the median time.
double AlgorithmBandwidth(const TrafficTime& time);
// Returns the traffic through a rank's connection in bytes per second, as nccl-tests defines it:
// the algorithm bandwidth times 2 (n-1)/n for all-reduce, (n-1)/n for reduce-scatter and
// all-gather, and 1 otherwise. It can be compared across numbers of ranks.
double BusBandwidth(const TrafficTime& time);

struct ProbeOptions {
  Nanos min_time_ns = kNanosPerSecond / 10;  // of all repeats together
  int min_repeats = 3;                       // takes precedence over min_time_ns
  int max_repeats = 200;
};

// Runs one rank's part. All ranks call it with the same arguments, each on its own thread, and get
// the same times. Returns DataLoss if a received number is wrong, with the rank and both values.
absl::StatusOr<TrafficTime> MeasureTraffic(Communicator* communicator,
                                           const std::shared_ptr<Device>& device, Traffic traffic,
                                           int64_t size_bytes, const ProbeOptions& options = {});

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_TRANSPORTS_COMMUNICATION_PROBE_H_
