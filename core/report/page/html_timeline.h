// Pieces of HTML shared by all pages with timelines.
#ifndef DPIPE_CORE_REPORT_PAGE_HTML_TIMELINE_H_
#define DPIPE_CORE_REPORT_PAGE_HTML_TIMELINE_H_

#include <string>

#include "core/base/status.h"
#include "core/proto/results.pb.h"
#include "core/proto/trace.pb.h"
#include "core/report/results/case_analysis.h"
#include "core/report/timeline/timeline_svg.h"
#include "core/report/timeline/trace_index.h"

namespace dpipe::report {

// Returns one timeline with its buttons and its legend, which may be empty.
std::string FigureHtml(const TimelineParts& parts, const std::string& legend);

// Returns a chart and a table of every device's time in a steady step, with the reasons of idle
// time.
std::string DeviceTimesHtml(const TraceIndex& index, const std::string& id_prefix);

// Returns a tile with a prominent number and its meaning.
std::string TileHtml(const std::string& value, const std::string& meaning);

// Returns "simulated", "executed" or "emulated".
const char* SourceName(const Trace& trace);

// A section that explains the colours and marks of a timeline.
extern const char kHowToReadTimelines[];

// One strategy's part of a report page: its timelines and its devices' time.

// Traces of one strategy; a null one is omitted. Not owned.
struct StrategyTraces {
  std::string strategy;
  const Trace* measured = nullptr;
  const Trace* predicted = nullptr;
};

// Shows the measured timeline (the predicted one if there is no other) with the strategy's key
// numbers beside its name. A fold holds the predicted timeline with its critical path and memory,
// the instructions that deviate from the prediction, and each device's time. `analysis` may be
// null. `options` has the axes that all strategies share, and the prefix of the ids of its
// elements. Returns InvalidArgument if a trace does not fit its own plan (see trace_index.h).
absl::StatusOr<std::string> StrategyHtml(const StrategyTraces& traces,
                                         const StrategyAnalysis* analysis,
                                         const TimelineOptions& options);

// Widens the axes of `options` so that the timeline of `trace` fits. Errors as above.
absl::Status WidenAxes(const Trace& trace, TimelineOptions* options);

// Returns the options for a strategy's measured timeline: steps near its median are typical.
TimelineOptions ForMeasured(const StrategyAnalysis* analysis, TimelineOptions options);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PAGE_HTML_TIMELINE_H_
