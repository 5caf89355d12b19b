// Pieces of HTML shared by all pages with timelines.
#ifndef DPIPE_CORE_REPORT_PAGE_HTML_TIMELINE_H_
#define DPIPE_CORE_REPORT_PAGE_HTML_TIMELINE_H_

#include <string>

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

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PAGE_HTML_TIMELINE_H_
