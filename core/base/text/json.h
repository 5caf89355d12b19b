// Parses and writes JSON shared with other programs: model folders and data sets.
#ifndef DPIPE_CORE_BASE_TEXT_JSON_H_
#define DPIPE_CORE_BASE_TEXT_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"

namespace dpipe {

// Maximum nesting depth of arrays and objects. Real files have fewer than ten levels. Copying,
// printing and destroying a value recurse once per level.
constexpr int kMaxJsonDepth = 100;

// Parses RFC 8259 and the extensions that Python's json module writes: NaN, Infinity and -Infinity
// (diffusers writes -Infinity into scheduler configs). Skips a UTF-8 byte-order mark. `Json` is
// nlohmann::json, or nlohmann::ordered_json, which keeps the order of keys.
//
// Returns InvalidArgument with `source` (a file, perhaps with a line), the line and column within
// `text`, and the reason: "config.json: line 3, column 7: unexpected '}'; expected ':'".
template <typename Json = nlohmann::json>
absl::StatusOr<Json> ParseJson(absl::string_view text, const std::string& source);

// The same, but returns InvalidArgument if the text is not an object.
template <typename Json = nlohmann::json>
absl::StatusOr<Json> ParseJsonObject(absl::string_view text, const std::string& source);

// Returns `value` as JSON text that ParseJson can read back, in the style of Python's json module.
// `indent` is the number of spaces per level (-1: on one line). Writes non-finite numbers as NaN,
// Infinity and -Infinity, and replaces bytes that are not UTF-8 by U+FFFD.
std::string JsonText(const nlohmann::ordered_json& value, int indent);

// Returns `value` for a message: on one line, in ASCII, at most 100 characters.
std::string ShowJson(const nlohmann::json& value);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_JSON_H_
