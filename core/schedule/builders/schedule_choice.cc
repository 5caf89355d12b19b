#include "core/schedule/builders/schedule_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace dpipe {
namespace {

Nanos SumOf(const PassCosts& costs) { return costs.forward + costs.input_grad + costs.weight_grad; }

}  // namespace

Nanos MakespanBound(const Schedule& schedule, const std::vector<PassCosts>& costs) {
  std::vector<Nanos> work(schedule.num_devices(), 0);
  std::vector<Nanos> entry(schedule.num_devices(), std::numeric_limits<Nanos>::max());
  for (int c = 0; c < static_cast<int>(schedule.chains().size()); ++c) {
    const ScheduleChain& chain = schedule.chains()[c];
    Nanos before = 0;
    for (int k = 0; k < static_cast<int>(chain.devices.size()); ++k) {
      const int d = chain.devices[k];
      const PassCosts& stage = costs[schedule.FirstStageOf(c) + k];
      entry[d] = std::min(entry[d], before);
      before += stage.forward;
      work[d] +=
          chain.num_micro_batches * (k < chain.num_forward_only ? stage.forward : SumOf(stage));
    }
  }
  Nanos bound = 0;
  for (int d = 0; d < schedule.num_devices(); ++d) {
    if (work[d] > 0) bound = std::max(bound, entry[d] + work[d]);
  }
  return bound;
}

void ScheduleChoice::Offer(absl::StatusOr<Schedule> schedule) {
  absl::Status status = schedule.status();
  if (status.ok()) status = CheckPeakLimit(*schedule, request_.peak_limit);
  if (!status.ok()) {
    if (!has_reason_) reason_ = status;
    has_reason_ = true;
    return;
  }
  if (costs_.empty()) {
    costs_ = request_.costs;
    if (costs_.empty()) costs_.assign(schedule->num_stages(), PassCosts{1, 1, 1});
  }
  const Nanos makespan = schedule->Makespan(costs_);
  if (best_.has_value() && makespan >= best_ns_) return;
  best_ = *std::move(schedule);
  best_ns_ = makespan;
}

bool ScheduleChoice::IsAtBound() const {
  return best_.has_value() && best_ns_ == MakespanBound(*best_, costs_);
}

absl::StatusOr<Schedule> ScheduleChoice::Take() {
  if (!best_.has_value()) return reason_;
  return *std::move(best_);
}

}  // namespace dpipe
