// CPU time of the calling thread.
#ifndef DPIPE_CORE_BASE_HOST_PROCESSOR_TIME_H_
#define DPIPE_CORE_BASE_HOST_PROCESSOR_TIME_H_

#include "core/base/time.h"

namespace dpipe {

// Returns the CPU time that the calling thread has used since it began, without waits.
Nanos ThreadProcessorTime();

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_HOST_PROCESSOR_TIME_H_
