// The best schedule of one chain in a V for given times and a given memory limit: of zb-v (with its
// narrower blocks where the limit requires them), the orders of dualpipe-v and wave, and greedy
// orders (list_schedule.h) that keep up to twice what zb-v keeps, and any number, where the limit
// allows. The smallest makespan wins, then the one named first here, so it is never above that of
// zb-v, and of dualpipe-v or wave's own order within the limit.
//
// Where stages take unlike times, devices that follow zb-v's order wait for their neighbours now
// and then; more pairs, or dualpipe-v's longer steps, can buy that back.
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
