// Parses and writes the JSON of model folders and data sets that other programs wrote.
#ifndef DPIPE_CORE_BASE_TEXT_JSON_H_
#define DPIPE_CORE_BASE_TEXT_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "nlohmann/json.hpp"

namespace dpipe {

// The maximum number of arrays and objects inside each other. Real files have fewer than ten;
// copying, printing and destroying a value recurse once per level.
constexpr int kMaxJsonDepth = 100;

// Parses RFC 8259 and what Python's json module writes beyond it: NaN, Infinity and -Infinity
// (diffusers writes -Infinity into scheduler configs). Skips a UTF-8 byte-order mark.
// `Json` is nlohmann::json, or nlohmann::ordered_json, which keeps the order of keys.
// InvalidArgument names `source` (a file, perhaps with a line), the line and column within `text`,
// and the reason: "config.json: line 3, column 7: unexpected '}'; expected ':'".
template <typename Json = nlohmann::json>
absl::StatusOr<Json> ParseJson(absl::string_view text, const std::string& source);

// The same for a text that must be an object.
template <typename Json = nlohmann::json>
absl::StatusOr<Json> ParseJsonObject(absl::string_view text, const std::string& source);

// Returns `value` as JSON text that ParseJson reads back, as Python's json module writes it: with
// `indent` spaces per level (-1: on one line), non-finite numbers as NaN, Infinity and -Infinity,
// and bytes that are not UTF-8 replaced by U+FFFD.
std::string JsonText(const nlohmann::ordered_json& value, int indent);

// Returns `value` as messages show it: on one line, ASCII, at most 100 characters.
std::string ShowJson(const nlohmann::json& value);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_JSON_H_
