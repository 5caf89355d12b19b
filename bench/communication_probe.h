// How fast ranks talk: messages and collectives of any transport, with their answers checked.
#ifndef DPIPE_BENCH_COMMUNICATION_PROBE_H_
#define DPIPE_BENCH_COMMUNICATION_PROBE_H_

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
  kSendReceive,    // from rank 0 to rank 1: half of a round trip
  kBroadcast,      // from rank 0 to every other one, by a message each
  kAllReduce,      // in place
  kReduceScatter,  // added to each rank's shard
  kAllGather,
};
const std::vector<Traffic>& AllTraffic();
const char* TrafficName(Traffic traffic);  // "all-reduce"

struct TrafficTime {
  Traffic traffic = Traffic::kSendReceive;
  int num_ranks = 0;
  int64_t size_bytes = 0;  // of the whole tensor
  int repeats = 0;
  Nanos median_ns = 0;  // of a repeat, until the last rank is done
  Nanos fastest_ns = 0;
  Nanos slowest_ns = 0;
};

// Bytes a second: the tensor's size over the time.
double AlgorithmBandwidth(const TrafficTime& time);
// What goes through a rank's connection at that: times 2 (n-1)/n of an all-reduce, (n-1)/n of
// reduce-scatter and all-gather, 1 else, as nccl-tests has it, so that numbers of ranks can be
// compared.
double BusBandwidth(const TrafficTime& time);

struct ProbeOptions {
  Nanos min_time_ns = kNanosPerSecond / 10;  // of all repeats together,
  int min_repeats = 3;                       // but at least so many,
  int max_repeats = 200;                     // and at most
};

// One rank's part; all ranks call it alike, each on its thread, and get the same times. DataLoss
// where a number is not what it should be, naming the rank and both values.
absl::StatusOr<TrafficTime> MeasureTraffic(Communicator* communicator,
                                           const std::shared_ptr<Device>& device, Traffic traffic,
                                           int64_t size_bytes, const ProbeOptions& options = {});

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMMUNICATION_PROBE_H_
