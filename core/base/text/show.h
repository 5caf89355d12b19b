// Text from files and lists of names, as messages show them: short, on one line, printable.
#ifndef DPIPE_CORE_BASE_TEXT_SHOW_H_
#define DPIPE_CORE_BASE_TEXT_SHOW_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dpipe {

// Limits of a message: a line that someone can read, not a dump.
constexpr size_t kMaxShownBytes = 100;
constexpr size_t kMaxShownNames = 5;
constexpr size_t kMaxListBytes = 200;

// Returns the length of the longest prefix of `text` of at most `max_bytes` bytes that does not end
// inside a UTF-8 character. Invalid UTF-8 is cut at any byte.
size_t Utf8Prefix(absl::string_view text, size_t max_bytes);

// Returns `text` on one line: control characters and bytes that are not UTF-8 become escapes
// (\n, \x1b), and what exceeds `max_bytes` becomes "...". Without quotes.
std::string ShowText(absl::string_view text, size_t max_bytes = kMaxShownBytes);

// Returns "a, b, c": the first names through ShowText, then "and 12 more". It shows at least one
// name, and no more than `max_names` or than have room in kMaxListBytes.
std::string ShowNames(const std::vector<std::string>& names, size_t max_names = kMaxShownNames);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_SHOW_H_
