#include "core/schedule/peak_limit.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace dpipe {

int MaxPeakStashed(const Schedule& schedule) {
  int peak = 0;
  for (int d = 0; d < schedule.num_devices(); ++d) {
    peak = std::max(peak, schedule.PeakStashedOnDevice(d));
  }
  return peak;
}

absl::Status CheckPeakLimit(const Schedule& schedule, int peak_limit) {
  for (int d = 0; d < schedule.num_devices() && peak_limit > 0; ++d) {
    const int peak = schedule.PeakStashedOnDevice(d);
    if (peak <= peak_limit) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", schedule.name(), ": device ", d, " keeps ", peak,
                     " pairs of stage and micro-batch, more than the limit of ", peak_limit));
  }
  return absl::OkStatus();
}

}  // namespace dpipe
