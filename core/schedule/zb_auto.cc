// A zero-bubble schedule for given times and a given memory limit, after the heuristic of Qi, Wan,
// Huang, Lin ("Zero bubble pipeline parallelism", arXiv 2401.10241): try several, keep the best.
// Tried are 1f1b, zb-h1, zb-h2 and what lies between the latter two, where they keep no more than
// ScheduleRequest::peak_limit pairs on every device, and list schedules under that limit with split
// and with joint backward passes, which exist for any limit from 1 on.
//
// The best has the smallest makespan; among equals, the smallest largest span of a device (its own
// first start to its own last end), as steps that need not begin and end together overlap by the
// rest; then the one tried first. So its makespan is never above that of 1f1b, zb-h1 or zb-h2
// where these fit the limit. Time: 5 list schedules and at most 6 orders by rule.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/schedule/generators.h"
#include "core/schedule/list_schedule.h"
#include "core/schedule/run_ahead.h"

namespace dpipe {
namespace {

constexpr char kName[] = "zb-auto";

class Search {
 public:
  explicit Search(const ScheduleRequest& request) : request_(request), costs_(request.costs) {
    if (costs_.empty()) costs_.assign(request.num_devices, {1, 1, 1});
  }

  absl::Status Run();
  std::vector<std::vector<Slot>> TakeBest() { return std::move(best_); }

 private:
  void Consider(const Schedule& schedule);
  absl::Status TryJoint();
  absl::Status TryRunAhead(int extra);
  absl::Status TryList(const ListPolicy& policy, bool split, double patience);

  const ScheduleRequest& request_;
  std::vector<PassCosts> costs_;
  bool found_ = false;
  std::pair<Nanos, Nanos> best_value_;
  std::vector<std::vector<Slot>> best_;
};

void Search::Consider(const Schedule& schedule) {
  for (int d = 0; d < schedule.num_devices() && request_.peak_limit > 0; ++d) {
    if (schedule.PeakStashedOnDevice(d) > request_.peak_limit) return;
  }
  const std::vector<std::vector<Nanos>> starts = schedule.StartTimes(costs_);
  std::pair<Nanos, Nanos> value;
  for (int d = 0; d < schedule.num_devices(); ++d) {
    const PassCosts& costs = costs_[d];
    const Pass last = schedule.slots(d).back().pass;  // a backward or a weight-gradient pass
    const Nanos end =
        starts[d].back() + costs.weight_grad + (last == Pass::kBackward ? costs.input_grad : 0);
    value.first = std::max(value.first, end);
    value.second = std::max(value.second, end - starts[d].front());
  }
  if (found_ && value >= best_value_) return;
  found_ = true;
  best_value_ = value;
  best_.clear();
  for (int d = 0; d < schedule.num_devices(); ++d) best_.push_back(schedule.slots(d));
}

absl::Status Search::TryJoint() {
  std::vector<std::vector<Slot>> slots;
  for (int s = 0; s < request_.num_devices; ++s) {
    slots.push_back(RunAheadSlots(request_.num_devices - 1 - s, request_.num_micro_batches));
  }
  DPIPE_ASSIGN_OR_RETURN(
      const Schedule schedule,
      Schedule::CreateStraight(kName, request_.num_micro_batches, std::move(slots)));
  Consider(schedule);
  return absl::OkStatus();
}

// Between zb-h1 (no extra forward passes on the first device) and zb-h2 (p-1 of them).
absl::Status Search::TryRunAhead(int extra) {
  const int p = request_.num_devices;
  std::vector<std::vector<Slot>> slots;
  for (int s = 0; s < p; ++s) {
    const int ahead = p - 1 - s + std::min(p - 1 - s, extra);
    const int delay = p - 1 + extra - ahead;  // every device keeps p + extra
    slots.push_back(SplitRunAheadSlots(ahead, delay, request_.num_micro_batches));
  }
  DPIPE_ASSIGN_OR_RETURN(
      const Schedule schedule,
      Schedule::CreateStraight(kName, request_.num_micro_batches, std::move(slots)));
  Consider(schedule);
  return absl::OkStatus();
}

absl::Status Search::TryList(const ListPolicy& policy, bool split, double patience) {
  ScheduleChain chain;
  chain.num_micro_batches = request_.num_micro_batches;
  for (int d = 0; d < request_.num_devices; ++d) chain.devices.push_back(d);
  ListScheduleOptions options;
  options.costs = costs_;
  options.policy = policy;
  options.split_backward = split;
  options.device_limits.assign(request_.num_devices, request_.peak_limit);
  options.weight_patience = patience;
  DPIPE_ASSIGN_OR_RETURN(const Schedule schedule, ListSchedule(kName, {chain}, options));
  Consider(schedule);
  return absl::OkStatus();
}

absl::Status Search::Run() {
  DPIPE_RETURN_IF_ERROR(TryJoint());
  const int p = request_.num_devices, m = request_.num_micro_batches;
  const int limit = request_.peak_limit == 0 ? 2 * p - 1 : request_.peak_limit;
  std::set<int> extras = {0, (p - 1) / 3, 2 * (p - 1) / 3, p - 1, std::min(limit - p, p - 1)};
  for (int extra : extras) {
    if (extra >= 0 && std::min(m, p + extra) <= limit) DPIPE_RETURN_IF_ERROR(TryRunAhead(extra));
  }
  for (double patience : {0.0, 1.0}) {
    DPIPE_RETURN_IF_ERROR(TryList(GradientsFirst, true, patience));
    DPIPE_RETURN_IF_ERROR(TryList(LongestPathFirst, true, patience));
  }
  return TryList(GradientsFirst, false, 0);
}

absl::StatusOr<Schedule> ZbAuto(const ScheduleRequest& request) {
  if (request.peak_limit < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule zb-auto: a limit of ", request.peak_limit, " pairs"));
  }
  if (!request.costs.empty() && static_cast<int>(request.costs.size()) != request.num_devices) {
    return absl::InvalidArgumentError(absl::StrCat("schedule zb-auto: costs of ",
                                                   request.costs.size(), " stages; it has ",
                                                   request.num_devices));
  }
  Search search(request);
  DPIPE_RETURN_IF_ERROR(search.Run());
  return Schedule::CreateStraight(kName, request.num_micro_batches, search.TakeBest());
}

REGISTER_SCHEDULE_GENERATOR("zb-auto", ZbAuto);

}  // namespace
}  // namespace dpipe
