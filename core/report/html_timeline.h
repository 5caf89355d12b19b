// Pieces of HTML that every page with timelines has.
#ifndef DPIPE_CORE_REPORT_HTML_TIMELINE_H_
#define DPIPE_CORE_REPORT_HTML_TIMELINE_H_

#include <string>

#include "core/report/timeline_svg.h"
#include "core/report/trace_index.h"

namespace dpipe::report {

// One timeline with its legend, which may be empty, and its buttons.
std::string FigureHtml(const TimelineParts& parts, const std::string& legend);

// A chart and a table of where every device's time goes in a steady step, and why it idles.
std::string DeviceTimesHtml(const TraceIndex& index, const std::string& id_prefix);

// A number to see at once, and what it means.
std::string TileHtml(const std::string& value, const std::string& meaning);

// "simulated", "executed", "emulated".
const char* SourceName(const Trace& trace);

// A section that says what the colours and marks of a timeline mean.
extern const char kHowToReadTimelines[];

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_HTML_TIMELINE_H_
