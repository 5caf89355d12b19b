// A Trace as a file for https://ui.perfetto.dev or chrome://tracing (Chrome's JSON trace event
// format).
//
// Each device is a process with one track per stream (compute, send, receive, collective) and a
// memory counter. Arrows connect every SEND with its RECV; separate tracks show the steps and the
// critical path. Times are microseconds from the first event's start. Every event carries its
// instruction's fields: micro-batch, samples, layers, step, bytes, predicted time.
#ifndef DPIPE_CORE_REPORT_TIMELINE_PERFETTO_H_
#define DPIPE_CORE_REPORT_TIMELINE_PERFETTO_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/proto/trace.pb.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {

// Returns InvalidArgument if an event names a rank or an instruction that the trace's plan lacks.
absl::StatusOr<std::string> PerfettoJson(const Trace& trace);

// Writes several traces to one file. Each has its own time 0, and its title precedes the names of
// its processes.
absl::StatusOr<std::string> PerfettoJson(const std::vector<TitledTrace>& traces);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TIMELINE_PERFETTO_H_
