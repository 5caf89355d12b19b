// The best schedule of one chain in a V for given times and a given memory limit.
//
// Candidates, in this order:
//   1. zb-v, with its blocks of less memory if the limit requires them;
//   2. the order of dualpipe-v, for m >= 2p micro-batches;
//   3. the order of wave;
//   4. greedy orders (list_schedule.h) that keep up to twice as much as zb-v, or any number, if the
//      limit allows it.
// The smallest makespan wins, then the first candidate. So the makespan is never above that of
// zb-v, nor above that of dualpipe-v's or wave's own order if these fit the limit.
//
// If stages take different times, devices that follow zb-v's order sometimes wait for their
// neighbours. More pairs, or dualpipe-v's longer steps, can avoid that.
#include <utility>
#include <vector>

#include "core/schedule/builders/list_schedule.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/builders/v_schedule.h"
#include "core/schedule/generators.h"
#include "core/schedule/generators/dualpipe_v.h"

namespace dpipe {
namespace {

constexpr char kName[] = "v-auto";

absl::StatusOr<Schedule> VAuto(const ScheduleRequest& request) {
  const int p = request.num_devices, m = request.num_micro_batches;
  ScheduleChoice choice(request);
  absl::StatusOr<Schedule> zero_bubble = MakeVSchedule(kName, VBlock::kZeroBubble, request);
  DPIPE_RETURN_IF_ERROR(zero_bubble.status());
  choice.Offer(std::move(zero_bubble));
  if (m >= 2 * p && !choice.IsAtBound()) choice.Offer(MakeDualPipeV(kName, p, m));
  const std::vector<ScheduleChain> chains = {VChain(p, m)};
  choice.Offer(
      Schedule::Create(kName, chains, VBlockOrder(VBlock::kZeroBubble, p, m, Pass::kBackward)));
  ListScheduleOptions options;
  options.costs = request.costs;
  options.policy = OldestFirst;
  for (int limit : {4 * p, 0}) {
    if (choice.IsAtBound()) break;
    if (request.peak_limit > 0 && (limit == 0 || limit > request.peak_limit)) {
      limit = request.peak_limit;
    }
    options.device_limits.assign(p, limit);
    choice.Offer(ListSchedule(kName, chains, options));
    if (limit == request.peak_limit) break;
  }
  return choice.Take();
}

REGISTER_SCHEDULE_GENERATOR("v-auto", VAuto);

}  // namespace
}  // namespace dpipe
