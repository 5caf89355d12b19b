// Display width of text on a terminal.
#ifndef DPIPE_CORE_REPORT_TEXT_WIDTH_H_
#define DPIPE_CORE_REPORT_TEXT_WIDTH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dpipe::report {

// Returns the number of terminal cells of `text` (UTF-8). Combining and zero-width characters take
// none, East Asian wide characters and emoji take two, all others one. An invalid UTF-8 byte counts
// as one cell. Control characters count as none; callers must not put them into cells.
int DisplayWidth(absl::string_view text);

// Returns the longest prefix of `text` that fits into `max_width` cells; if text is cut, the last
// cell is "…". Never splits a character.
std::string TruncateToWidth(absl::string_view text, int max_width);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TEXT_WIDTH_H_
