// A Trace as a file for https://ui.perfetto.dev or chrome://tracing (Chrome's JSON trace event
// format).
//
// One process a device with one track a stream (compute, send, receive, collective), an arrow from
// every SEND to its RECV, and a track of steps. Times are microseconds from the first event's
// start. Every event carries what its instruction says: micro-batch, samples, layers, step, bytes,
// predicted time.
#ifndef DPIPE_CORE_REPORT_PERFETTO_H_
#define DPIPE_CORE_REPORT_PERFETTO_H_

#include <string>

#include "core/base/status.h"
#include "core/proto/trace.pb.h"

namespace dpipe::report {

// InvalidArgument if an event names a rank or an instruction that the trace's plan does not have.
absl::StatusOr<std::string> PerfettoJson(const Trace& trace);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PERFETTO_H_
