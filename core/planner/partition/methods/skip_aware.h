// Skip-aware partition for V placements, after PULSE (arXiv 2606.19163): the encoder's and the
// decoder's end of a skip belong on one device, where the skip crosses no link.
//
// Device d holds stages d and S-1-d. It minimises
//
//   (M - 1) * T0 + X      T0 = the largest device sum of compute times
//                         X  = time on links of everything that crosses from device to device,
//                              summed over the boundaries (boundary_traffic.h says what crosses)
//
// which is a pipeline's step up to the computing of one micro-batch. Of the Pareto front of (T0,
// traffic) it takes the point that is best: for a limit on T0, a table over (devices from the
// outside, layers placed at the front, layers placed at the back) holds the least traffic, which
// adds up device by device; then the limit is lowered below the T0 that came out. Up to 24 layers
// the limit falls by 1 ns, which finds the optimum; above, it begins 1/16 over the least T0 and
// falls by 1 % at a time, so a partition with less traffic and a longer T0 than that is not seen.
//
// Deviations: traffic counts at the bandwidth of the slowest link between neighbouring devices,
// latencies are left out; a value read in more than two places is counted by its first and last
// reader; with Recompute::kAuto the cuts are those of full recomputation if they do not fit
// without.
#ifndef DPIPE_CORE_PLANNER_PARTITION_METHODS_SKIP_AWARE_H_
#define DPIPE_CORE_PLANNER_PARTITION_METHODS_SKIP_AWARE_H_

#include "absl/status/statusor.h"
#include "core/planner/partition/partition.h"

namespace dpipe {

// InvalidArgument unless there is one stage alone, or stages k and S-1-k share device k for every
// k. ResourceExhausted, with both values, if nothing fits.
absl::StatusOr<Partition> PartitionSkipAware(const PartitionProblem& problem);

// Its objective, for T0 and X as defined there.
Nanos SkipAwareCost(const PartitionProblem& problem, const std::vector<LayerRange>& stages,
                    const std::vector<DeviceSeat>& seats);

}  // namespace dpipe

#endif  // DPIPE_CORE_PLANNER_PARTITION_METHODS_SKIP_AWARE_H_
