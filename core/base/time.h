// Time in integer nanoseconds: exact, comparable, and the same in every run.
#ifndef DPIPE_CORE_BASE_TIME_H_
#define DPIPE_CORE_BASE_TIME_H_

#include <cstdint>
#include <string>

namespace dpipe {

using Nanos = int64_t;

inline constexpr Nanos kNanosPerMicro = 1000;
inline constexpr Nanos kNanosPerMilli = 1000 * 1000;
inline constexpr Nanos kNanosPerSecond = 1000 * 1000 * 1000;

// Returns the time of the monotonic clock; its origin is arbitrary.
Nanos MonotonicNow();

// Returns "412 us", "3.21 ms", "1.50 s" or "2 min 05 s".
std::string FormatDuration(Nanos duration_ns);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TIME_H_
