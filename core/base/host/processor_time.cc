#include "core/base/host/processor_time.h"

#include <time.h>

namespace dpipe {

Nanos ThreadProcessorTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<Nanos>(now.tv_sec) * kNanosPerSecond + now.tv_nsec;
}

}  // namespace dpipe
