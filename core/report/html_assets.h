// Style and script of the report page, as text to embed.
#ifndef DPIPE_CORE_REPORT_HTML_ASSETS_H_
#define DPIPE_CORE_REPORT_HTML_ASSETS_H_

namespace dpipe::report {

// Expects the variables --card and --fg, the colours of pictures' surfaces and text.
extern const char kReportCss[];

// Zooming and panning of timelines, and a line that tells what was tapped. The page is complete
// without.
extern const char kReportScript[];

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_HTML_ASSETS_H_
