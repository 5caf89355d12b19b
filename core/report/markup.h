// Helpers for HTML and SVG text.
#ifndef DPIPE_CORE_REPORT_MARKUP_H_
#define DPIPE_CORE_REPORT_MARKUP_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dpipe::report {

// Escapes `text` for use as character data or as a quoted attribute value: & < > " ' are escaped,
// and control characters that XML forbids become blanks.
std::string EscapeMarkup(absl::string_view text);

// Returns "12.3456": at most 4 decimals and no trailing zeros, for any locale.
std::string NumberText(double value);

// Returns "412 µs", "3.21 ms" or "1.5 s": three significant digits.
std::string ShortDuration(double duration_ns);

// Returns "4.2 %" for a ratio of 0.042; "-" for NaN.
std::string PercentText(double ratio);

// Returns the smallest distance between axis marks that gives at most `max_marks` over `range`: 1,
// 2 or 5 times a power of ten. Requires `range` > 0.
double NiceTick(double range, int max_marks);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_MARKUP_H_
