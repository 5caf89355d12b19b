// Formats text from files and lists of names for messages: short, on one line, printable.
#ifndef DPIPE_CORE_BASE_TEXT_SHOW_H_
#define DPIPE_CORE_BASE_TEXT_SHOW_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace dpipe {

// Limits of a message, which should be a line that someone can read, not a dump.
constexpr size_t kMaxShownBytes = 100;
constexpr size_t kMaxShownNames = 5;
constexpr size_t kMaxListBytes = 200;

// Returns the length of the longest prefix of `text` that has at most `max_bytes` bytes and does
// not end inside a UTF-8 character. Invalid UTF-8 is cut at any byte.
size_t Utf8Prefix(absl::string_view text, size_t max_bytes);

// Returns `text` on one line, without quotes. Control characters and bytes that are not UTF-8
// become escapes (\n, \x1b), and the part beyond `max_bytes` becomes "...".
std::string ShowText(absl::string_view text, size_t max_bytes = kMaxShownBytes);

// Returns "a, b, c": the first names through ShowText, then "and 12 more". Shows at least one name,
// and at most `max_names` or as many as fit into kMaxListBytes.
std::string ShowNames(const std::vector<std::string>& names, size_t max_names = kMaxShownNames);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_SHOW_H_
