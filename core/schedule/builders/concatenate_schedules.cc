#include "core/schedule/builders/concatenate_schedules.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {

absl::StatusOr<Schedule> ConcatenateSchedules(const std::vector<Schedule>& backbones) {
  if (backbones.empty()) return absl::InvalidArgumentError("there are no schedules to join");
  if (backbones.size() == 1) return backbones[0];
  std::vector<ScheduleChain> chains;
  std::vector<std::vector<Slot>> slots(backbones[0].num_devices());
  int first_stage = 0;
  for (size_t b = 0; b < backbones.size(); ++b) {
    const Schedule& schedule = backbones[b];
    if (schedule.num_devices() != backbones[0].num_devices()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "schedule ", schedule.name(), " of backbone ", b, " has ", schedule.num_devices(),
          " devices and that of backbone 0 has ", backbones[0].num_devices()));
    }
    for (ScheduleChain chain : schedule.chains()) {
      chain.backbone = static_cast<int>(b);
      chains.push_back(std::move(chain));
    }
    for (int d = 0; d < schedule.num_devices(); ++d) {
      for (Slot slot : schedule.slots(d)) {
        slot.stage += first_stage;
        slots[d].push_back(slot);
      }
    }
    first_stage += schedule.num_stages();
  }
  return Schedule::Create(backbones[0].name(), std::move(chains), std::move(slots));
}

absl::StatusOr<Schedule> Repeated(const Schedule& schedule, int times) {
  if (times < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a schedule is repeated at least once; got ", times));
  }
  std::vector<ScheduleChain> chains = schedule.chains();
  std::vector<std::vector<Slot>> slots(schedule.num_devices());
  for (int d = 0; d < schedule.num_devices(); ++d) {
    for (int i = 0; i < times; ++i) {
      for (Slot slot : schedule.slots(d)) {
        slot.micro_batch += i * chains[schedule.ChainOf(slot.stage)].num_micro_batches;
        slots[d].push_back(slot);
      }
    }
  }
  for (ScheduleChain& chain : chains) chain.num_micro_batches *= times;
  return Schedule::Create(schedule.name(), std::move(chains), std::move(slots));
}

}  // namespace dpipe
