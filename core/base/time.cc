#include "core/base/time.h"

#include <chrono>
#include <limits>

#include "absl/strings/str_format.h"

namespace dpipe {

Nanos MonotonicNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string FormatDuration(Nanos duration_ns) {
  if (duration_ns == std::numeric_limits<Nanos>::min()) ++duration_ns;  // would overflow
  if (duration_ns < 0) return "-" + FormatDuration(-duration_ns);
  if (duration_ns < kNanosPerMilli) {
    return absl::StrFormat("%d us", duration_ns / kNanosPerMicro);
  }
  if (duration_ns < kNanosPerSecond) {
    return absl::StrFormat("%.2f ms", static_cast<double>(duration_ns) / kNanosPerMilli);
  }
  if (duration_ns < 60 * kNanosPerSecond) {
    return absl::StrFormat("%.2f s", static_cast<double>(duration_ns) / kNanosPerSecond);
  }
  const int64_t seconds = duration_ns / kNanosPerSecond;
  return absl::StrFormat("%d min %02d s", seconds / 60, seconds % 60);
}

}  // namespace dpipe
