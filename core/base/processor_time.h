// How long the calling thread has computed, whatever else the machine was doing.
#ifndef DPIPE_CORE_BASE_PROCESSOR_TIME_H_
#define DPIPE_CORE_BASE_PROCESSOR_TIME_H_

#include "core/base/time.h"

namespace dpipe {

// The calling thread's time since it began: waiting and other programs do not count.
Nanos ThreadProcessorTime();

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_PROCESSOR_TIME_H_
