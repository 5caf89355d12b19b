// The trace of a run, from what its ranks have recorded.
#ifndef DPIPE_CORE_RUNTIME_SESSION_EXECUTED_TRACE_H_
#define DPIPE_CORE_RUNTIME_SESSION_EXECUTED_TRACE_H_

#include <vector>

#include "core/base/time.h"
#include "core/proto/plan.pb.h"
#include "core/proto/trace.pb.h"
#include "core/runtime/session_message.pb.h"

namespace dpipe {

// Returns the trace of all ranks' records, sorted by time. `step_starts_ns` has every step's start,
// then the end of the last.
//
// A RECV is recorded as the time for which its rank waited. What passed before the SEND's start was
// idle time and not the message's, so the event begins with the SEND if that is later: as in a
// simulation, no message is received before it is sent.
Trace ExecutedTrace(const Plan& plan, ProcessRun records, const std::vector<Nanos>& step_starts_ns);

}  // namespace dpipe

#endif  // DPIPE_CORE_RUNTIME_SESSION_EXECUTED_TRACE_H_
