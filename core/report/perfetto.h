// A Trace as a file for https://ui.perfetto.dev or chrome://tracing (Chrome's JSON trace event
// format).
//
// One process a device with one track a stream (compute, send, receive, collective), an arrow from
// every SEND to its RECV, a track of steps and one of the critical path, and the memory of each
// device as a counter. Times are microseconds from the first event's start. Every event carries
// what its instruction says: micro-batch, samples, layers, step, bytes, predicted time.
#ifndef DPIPE_CORE_REPORT_PERFETTO_H_
#define DPIPE_CORE_REPORT_PERFETTO_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/trace.pb.h"
#include "core/report/trace_index.h"

namespace dpipe::report {

// InvalidArgument if an event names a rank or an instruction that the trace's plan does not have.
absl::StatusOr<std::string> PerfettoJson(const Trace& trace);

// Several in one file, each from its own time 0, with its title before the names of its processes.
absl::StatusOr<std::string> PerfettoJson(const std::vector<TitledTrace>& traces);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PERFETTO_H_
