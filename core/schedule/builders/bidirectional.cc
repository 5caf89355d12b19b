#include "core/schedule/builders/bidirectional.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/schedule/builders/list_schedule.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/schedule_traits.h"

namespace dpipe {
namespace {

ListPriority LowestMicroBatchFirst(const ListCandidate& candidate) {
  return {candidate.slot.micro_batch, candidate.slot.pass == Pass::kForward ? 1 : 0, 0};
}

}  // namespace

absl::StatusOr<Schedule> MakeBidirectional(const std::string& name, const ScheduleChain& down,
                                           const ScheduleRequest& request) {
  DPIPE_ASSIGN_OR_RETURN(const ScheduleTraits traits, TraitsOf(name));
  DPIPE_RETURN_IF_ERROR(CheckRequest(name, traits, request));
  std::vector<ScheduleChain> chains(2, down);
  for (int& device : chains[1].devices) device = request.num_devices - 1 - device;
  for (ScheduleChain& chain : chains) chain.num_micro_batches = request.num_micro_batches / 2;

  ScheduleChoice choice(request);
  ListScheduleOptions options;
  options.costs.assign(2 * down.devices.size(), PassCosts{1, 1, 0});
  options.policy = LowestMicroBatchFirst;
  options.split_backward = false;
  absl::StatusOr<Schedule> plain = ListSchedule(name, chains, options);
  DPIPE_RETURN_IF_ERROR(plain.status());
  const int limit = MaxPeakStashed(*plain);
  choice.Offer(std::move(plain));
  const bool is_limited = request.peak_limit > 0 && request.peak_limit < limit;
  if (request.costs.empty() && !is_limited) return choice.Take();

  if (!request.costs.empty()) options.costs = request.costs;
  std::vector<int> limits = {is_limited ? request.peak_limit : limit};
  if (request.peak_limit == 0) limits.insert(limits.end(), {limit + limit / 2, 0});
  if (request.peak_limit > limit) limits.push_back(request.peak_limit);
  for (int device_limit : limits) {
    options.device_limits.assign(request.num_devices, device_limit);
    choice.Offer(ListSchedule(name, chains, options));
  }
  return choice.Take();
}

}  // namespace dpipe
