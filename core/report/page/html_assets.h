// Style and script of the report page (report.css, report.js), to be embedded as text.
#ifndef DPIPE_CORE_REPORT_PAGE_HTML_ASSETS_H_
#define DPIPE_CORE_REPORT_PAGE_HTML_ASSETS_H_

namespace dpipe::report {

// Expects the CSS variables --card and --fg: the surface and text colours of pictures.
extern const char kReportCss[];

// Zooms and pans timelines, shows the description of a tapped box, and unpacks folds
// (packed_fold.h). A page without the script lacks only these.
extern const char kReportScript[];

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PAGE_HTML_ASSETS_H_
