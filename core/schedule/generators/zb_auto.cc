// A zero-bubble schedule for given times and a given memory limit, after the heuristic of Qi, Wan,
// Huang, Lin ("Zero bubble pipeline parallelism", arXiv 2401.10241): tries several candidates and
// keeps the best.
//
// Candidates:
//   1. 1f1b.
//   2. Forward passes and input gradients in the order of zb-h1, of zb-h2, or of a schedule between
//      them, as far as ScheduleRequest::peak_limit allows. Weight gradients are placed by the same
//      rule as there, or wherever a simulation at the given times finds room (weight_filling.h),
//      with different degrees of patience for passes that are about to become ready.
//   3. List schedules under the limit.
// Any limit >= 1 has a schedule.
//
// The best has the smallest makespan. Ties are broken by the largest span of a device, from its own
// first start to its own last end: if the devices need not begin and end a step together, steps
// overlap by the rest. After that, the first candidate wins. So the makespan is never above that of
// 1f1b, zb-h1 or zb-h2 if these fit the limit. At most 15 schedules are simulated.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "core/schedule/builders/list_schedule.h"
#include "core/schedule/builders/run_ahead.h"
#include "core/schedule/builders/weight_filling.h"
#include "core/schedule/generators.h"

namespace dpipe {
namespace {

constexpr char kName[] = "zb-auto";

class Search {
 public:
  explicit Search(const ScheduleRequest& request)
      : request_(request),
        limit_(request.peak_limit < request.num_micro_batches ? request.peak_limit : 0),
        costs_(request.costs) {
    if (costs_.empty()) costs_.assign(request.num_devices, {1, 1, 1});
    chain_.num_micro_batches = request.num_micro_batches;
    for (int d = 0; d < request.num_devices; ++d) chain_.devices.push_back(d);
  }

  absl::Status Run();
  Schedule TakeBest() { return *std::move(best_); }

 private:
  void Consider(Schedule schedule);
  absl::Status TryJoint();
  absl::Status TryRunAhead(int extra);
  absl::Status TryList(double patience);

  const ScheduleRequest& request_;
  const int limit_;  // 0: no limit, or one that all micro-batches together do not exceed
  std::vector<PassCosts> costs_;
  ScheduleChain chain_;
  std::pair<Nanos, Nanos> best_value_;
  absl::optional<Schedule> best_;
};

void Search::Consider(Schedule schedule) {
  for (int d = 0; d < schedule.num_devices() && limit_ > 0; ++d) {
    if (schedule.PeakStashedOnDevice(d) > limit_) return;
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
  if (best_ && value >= best_value_) return;
  best_value_ = value;
  best_ = std::move(schedule);
}

absl::Status Search::TryJoint() {
  std::vector<std::vector<Slot>> slots;
  for (int s = 0; s < request_.num_devices; ++s) {
    slots.push_back(RunAheadSlots(request_.num_devices - 1 - s, request_.num_micro_batches));
  }
  DPIPE_ASSIGN_OR_RETURN(
      Schedule schedule,
      Schedule::CreateStraight(kName, request_.num_micro_batches, std::move(slots)));
  Consider(std::move(schedule));
  return absl::OkStatus();
}

// Tries orders between zb-h1 (`extra` is 0: no extra forward passes on the first device) and zb-h2
// (`extra` is p-1). If the limit is below p pairs, stages run ahead as far as the limit allows.
absl::Status Search::TryRunAhead(int extra) {
  const int p = request_.num_devices;
  const int kept = limit_ > 0 ? std::min(limit_, p + extra) : p + extra;  // on every device
  std::vector<std::vector<Slot>> by_rule, order(p);
  for (int s = 0; s < p; ++s) {
    const int ahead = std::min(p - 1 - s + std::min(p - 1 - s, extra), kept - 1);
    by_rule.push_back(SplitRunAheadSlots(ahead, kept - 1 - ahead, request_.num_micro_batches));
    for (Slot& slot : by_rule.back()) {
      slot.stage = s;
      if (slot.pass != Pass::kWeightGrad) order[s].push_back(slot);
    }
  }
  DPIPE_ASSIGN_OR_RETURN(Schedule schedule, Schedule::Create(kName, {chain_}, std::move(by_rule)));
  Consider(std::move(schedule));
  WeightFillingOptions options;
  options.costs = costs_;
  options.device_limit = kept;
  for (double patience : {0.0, 0.5, 1.0}) {
    options.patience = patience;
    DPIPE_ASSIGN_OR_RETURN(Schedule filled, FillWeightGradients(kName, {chain_}, order, options));
    Consider(std::move(filled));
  }
  return absl::OkStatus();
}

absl::Status Search::TryList(double patience) {
  ListScheduleOptions options;
  options.costs = costs_;
  options.device_limits.assign(request_.num_devices, limit_);
  options.weight_patience = patience;
  DPIPE_ASSIGN_OR_RETURN(Schedule schedule, ListSchedule(kName, {chain_}, options));
  Consider(std::move(schedule));
  return absl::OkStatus();
}

absl::Status Search::Run() {
  DPIPE_RETURN_IF_ERROR(TryJoint());
  const int p = request_.num_devices;
  int max_extra = p - 1;  // maximum number of extra forward passes
  if (limit_ > 0) max_extra = std::clamp(limit_ - p, 0, max_extra);
  for (int extra : std::set<int>{0, max_extra / 2, max_extra}) {
    DPIPE_RETURN_IF_ERROR(TryRunAhead(extra));
  }
  DPIPE_RETURN_IF_ERROR(TryList(0));
  return TryList(0.5);
}

absl::StatusOr<Schedule> ZbAuto(const ScheduleRequest& request) {
  if (request.peak_limit < 0) {
    return absl::InvalidArgumentError(absl::StrCat("schedule zb-auto: a peak limit of ",
                                                   request.peak_limit,
                                                   " pairs; it must not be negative"));
  }
  if (!request.costs.empty() && static_cast<int>(request.costs.size()) != request.num_devices) {
    return absl::InvalidArgumentError(absl::StrCat("schedule zb-auto: costs of ",
                                                   request.costs.size(), " stages; it has ",
                                                   request.num_devices));
  }
  Search search(request);
  DPIPE_RETURN_IF_ERROR(search.Run());
  return search.TakeBest();
}

REGISTER_SCHEDULE_GENERATOR("zb-auto", ZbAuto);

}  // namespace
}  // namespace dpipe
