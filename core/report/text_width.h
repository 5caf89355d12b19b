// How many terminal cells a text takes.
#ifndef DPIPE_CORE_REPORT_TEXT_WIDTH_H_
#define DPIPE_CORE_REPORT_TEXT_WIDTH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace dpipe::report {

// Cells that `text` (UTF-8) takes on a terminal: combining and zero-width characters take none,
// East Asian wide characters and emoji take two, everything else one. A byte that is not valid
// UTF-8 counts as one cell. Control characters count as none: a caller does not put them into
// cells.
int DisplayWidth(absl::string_view text);

// The longest prefix of `text` that takes at most `max_width` cells; where something is cut, its
// last cell is "…". Never splits a character.
std::string TruncateToWidth(absl::string_view text, int max_width);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TEXT_WIDTH_H_
