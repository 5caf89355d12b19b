// Pieces of HTML and SVG text.
#ifndef DPIPE_CORE_REPORT_MARKUP_H_
#define DPIPE_CORE_REPORT_MARKUP_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dpipe::report {

// `text` as character data or as a quoted attribute's value: & < > " ' escaped, control characters
// that XML forbids replaced by blanks.
std::string EscapeMarkup(absl::string_view text);

// "12.3456": at most 4 decimals and no trailing zeros, whatever the locale.
std::string NumberText(double value);

// "412 µs", "3.21 ms", "1.5 s": three significant digits.
std::string ShortDuration(double duration_ns);

// "4.2 %" of a ratio 0.042; "-" of NaN.
std::string PercentText(double ratio);

// The distance between marks of an axis of `range` such that there are at most `max_marks`: 1, 2 or
// 5 times a power of ten. `range` > 0.
double NiceTick(double range, int max_marks);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_MARKUP_H_
