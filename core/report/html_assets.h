// Style and script of the report page, as text to embed: report.css and report.js.
#ifndef DPIPE_CORE_REPORT_HTML_ASSETS_H_
#define DPIPE_CORE_REPORT_HTML_ASSETS_H_

namespace dpipe::report {

// Expects the variables --card and --fg, the colours of pictures' surfaces and text.
extern const char kReportCss[];

// Zooming and panning of timelines, a line that tells what was tapped, and what unpacks folds
// (packed_fold.h). Without it a page lacks these and is complete otherwise.
extern const char kReportScript[];

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_HTML_ASSETS_H_
