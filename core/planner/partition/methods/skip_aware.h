// Skip-aware partition for V placements, after PULSE (arXiv 2606.19163): both ends of a skip, in
// the encoder and in the decoder, should be on one device, so that the skip crosses no link.
//
// Device d holds stages d and S-1-d. The partitioner minimises
//
//   (M - 1) * T0 + X      T0 = the largest device sum of compute times
//                         X  = time on links of everything that crosses from device to device,
//                              summed over the boundaries (boundary_traffic.h says what crosses)
//
// which is a pipeline's step except for the computing of one micro-batch. It takes the best point
// of the Pareto front of (T0, traffic):
//
//   1. For a limit on T0, a table over (devices from the outside, layers placed at the front,
//      layers placed at the back) holds the minimum traffic, which adds up device by device.
//   2. The limit is lowered below the resulting T0, and step 1 is repeated.
//
// With up to 24 layers, the limit falls by 1 ns, which finds the optimum. With more, it starts 1/16
// above the minimum T0 and falls by 1 % at a time, so partitions with less traffic and a longer T0
// are missed.
//
// Deviations: traffic counts at the bandwidth of the slowest link between neighbouring devices, and
// latencies are ignored. A value read in more than two places is counted by its first and last
// reader. With Recompute::kAuto, the cuts are those of full recomputation if nothing fits without.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_SKIP_AWARE_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_SKIP_AWARE_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// Returns InvalidArgument unless there is only one stage or stages k and S-1-k share device k for
// every k. Returns ResourceExhausted, with both values, if nothing fits.
absl::StatusOr<Partition> PartitionSkipAware(const PartitionProblem& problem);

// Returns the objective above.
Nanos SkipAwareCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                    const std::vector<DeviceSeat>& seats);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_SKIP_AWARE_H_
