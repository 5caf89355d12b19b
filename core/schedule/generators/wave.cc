// One chain in a V with joint backward passes, for backbones with long skip connections. In a
// U-Net, the layers that make a skip and those that read it mirror each other in the chain. With
// mirrored cuts, both are on one device, and the skip stays there. (PULSE, arXiv 2606.19163.)
// [algorithms.md §5]
//
// The order is that of the zero-bubble building block (v_schedule.h), with joint backward passes
// instead of input gradients. F and B are the costs of one stage, half of a stage of 1f1b. For
// m >= p micro-batches and B >= F,
//
//   makespan of wave   2m(F+B) + 2(p-1)B
//   makespan of 1f1b   2m(F+B) + 2(p-1)(F+B)   in the same terms
//
// A device keeps min(2m, 2p) pairs, as many as the first device of 1f1b. With costs or a peak
// limit, the result is the schedule with the smallest makespan among this order, those of the
// blocks with less memory, and greedy orders within the same memory.
#include <algorithm>
#include <utility>

#include "core/schedule/builders/list_schedule.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/builders/v_schedule.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

constexpr char kName[] = "wave";

absl::StatusOr<Schedule> Wave(const ScheduleRequest& request) {
  DPIPE_RETURN_IF_ERROR(CheckVRequest(kName, request));
  const int p = request.num_devices, m = request.num_micro_batches;
  const std::vector<ScheduleChain> chains = {VChain(p, m)};
  ScheduleChoice choice(request);
  choice.Offer(
      Schedule::Create(kName, chains, VBlockOrder(VBlock::kZeroBubble, p, m, Pass::kBackward)));
  int limit = VBlockPeak(VBlock::kZeroBubble, p);
  const bool is_limited = request.peak_limit > 0 && request.peak_limit < std::min(limit, 2 * m);
  if (request.costs.empty() && !is_limited) return choice.Take();

  for (VBlock block : {VBlock::kHalf, VBlock::kMin}) {
    choice.Offer(Schedule::Create(kName, chains, VBlockOrder(block, p, m, Pass::kBackward)));
  }
  if (is_limited) limit = request.peak_limit;
  ListScheduleOptions options;
  options.costs = request.costs;
  options.split_backward = false;
  options.device_limits.assign(p, limit);
  for (ListPolicy policy : {ListPolicy(GradientsFirst), ListPolicy(OldestFirst)}) {
    options.policy = std::move(policy);
    choice.Offer(ListSchedule(kName, chains, options));
  }
  return choice.Take();
}

REGISTER_SCHEDULE_GENERATOR("wave", Wave);

}  // namespace
}  // namespace dpipe
