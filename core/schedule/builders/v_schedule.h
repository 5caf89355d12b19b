// Schedules of one chain in a V: 2p stages, stage k and stage 2p-1-k on device k. The device with a
// micro-batch's first stage also holds its last one, so the devices' memory evens out.
// (Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362.) [algorithms.md §5]
//
// A building block is one micro-batch's two forward passes and two input gradients on each device,
// at unit costs. It is repeated every 6 slots (these 4, and 2 weight gradients) without collisions.
// The distance between its passes is how long a device keeps something, so the block determines the
// memory:
//
//   device i      forward        forward       gradient       gradient
//                 of stage i     of 2p-1-i     of 2p-1-i      of i           a device keeps (pairs)
//   zero bubble   4i             6p-5-2i       6p-4+4i        12p-9-2i       2p
//   half          2i             3p-2-i        3p-1+2i+k      6p-2-i+k       min(p+2, 2p)
//   min           i              2p-1-i        2p+i+k         4p-1-i+k       2 floor((p+4)/3)
//
// with k = 3 for half with even p, k = 2 for min if 3 divides p, else 0. The zero-bubble block is
// derived here: the slopes 4, -2, 4, -2 are equal modulo 6, so the four passes have the residues
// 0, 1, 2, 3 on every device, each at the first slot that its input allows.
//
// The makespan at F = I = W = 1, of which each device works 6m (tested for p <= 10, m <= 3p; for
// p < 3 all three blocks are like the first one):
//
//   zero bubble   6m + p - 1, the minimum possible, if and only if m >= p
//   half          6m + 3p - 7 for even p, 6m + 3p - 5 for odd p
//   min           6m + 4p - 5, or 6m + 4p - 7 if 3 divides p
//
// half and min require m >= 2p for this. With p <= m < 2p they take no longer than the authors'
// released code (testdata/v_published_overheads.txt). For odd p, that code takes one slot more for
// half and keeps one pair less.
//
// The repeated block, both as it is and squeezed (v_block_squeeze.h), gives orders of the passes;
// FillWeightGradients places the weight gradients. Memory is counted in pairs of (stage,
// micro-batch). A stage here is half of a stage of 1f1b, so 2p pairs are what the first device of
// 1f1b keeps.
#ifndef DPIPE_CORE_SCHEDULE_BUILDERS_V_SCHEDULE_H_
#define DPIPE_CORE_SCHEDULE_BUILDERS_V_SCHEDULE_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/schedule/generators.h"
#include "core/schedule/schedule.h"

namespace dpipe {

enum class VBlock { kZeroBubble, kHalf, kMin };

// Returns a chain of 2p stages: stage k is on device k for k < p, else on device 2p-1-k.
ScheduleChain VChain(int num_devices, int num_micro_batches);

// Returns the maximum number of pairs that a device keeps under the block; see above.
int VBlockPeak(VBlock block, int num_devices);

// Returns, by device, the forward passes and gradients of the repeated block. `gradient` is
// kInputGrad, or kBackward for schedules that do not split.
std::vector<std::vector<Slot>> VBlockOrder(VBlock block, int num_devices, int num_micro_batches,
                                           Pass gradient);

// InvalidArgument unless a V can satisfy the request: two stages per device, costs of 2p stages or
// none, and a peak limit with room for the 2 pairs of one micro-batch.
absl::Status CheckVRequest(const std::string& name, const ScheduleRequest& request);

// Returns the schedule with the shortest makespan at request.costs, of
// - the orders of `block`, repeated and squeezed, with weight gradients placed best for unit costs,
//   and placed greedily at the given costs, with and without patience (weight_filling.h),
// - the same for the blocks with less memory, if request.peak_limit is below VBlockPeak(block), and
// - a greedy order (list_schedule.h).
// A device keeps at most VBlockPeak(block) pairs, or request.peak_limit if that is less.
// InvalidArgument if CheckVRequest fails. Time: at most 16 orders, O(slots log slots) each.
absl::StatusOr<Schedule> MakeVSchedule(const std::string& name, VBlock block,
                                       const ScheduleRequest& request);

}  // namespace dpipe

#endif  // DPIPE_CORE_SCHEDULE_BUILDERS_V_SCHEDULE_H_
