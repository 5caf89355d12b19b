#include "core/base/text/json.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/text/show.h"

namespace dpipe {
namespace {

constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

struct NonFiniteWord {
  absl::string_view word;
  double value;
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr NonFiniteWord kNonFiniteWords[] = {
    {"NaN", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", kInfinity},
    {"-Infinity", -kInfinity},
};

absl::Status ErrorAt(const std::string& source, absl::string_view text, size_t offset,
                     absl::string_view reason) {
  const absl::string_view before = text.substr(0, offset);
  const size_t newline = before.rfind('\n');
  const size_t line_start = newline == absl::string_view::npos ? 0 : newline + 1;
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": line ", 1 + std::count(before.begin(), before.end(), '\n'),
                   ", column ", 1 + before.size() - line_start, ": ", reason));
}

// A text that is valid by RFC 8259 if the original is valid for Python. Each non-finite word is
// replaced by a string of the same length, so that offsets in error messages stay right.
struct StandardText {
  std::string text;
  std::map<size_t, double> non_finite;  // by the string's index among all strings, including keys
};

absl::StatusOr<StandardText> ToStandard(absl::string_view text, const std::string& source) {
  StandardText standard{std::string(text), {}};
  int depth = 0;
  size_t strings = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      ++strings;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) {
        return ErrorAt(source, text, i,
                       absl::StrCat("more than ", kMaxJsonDepth, " nested lists and objects"));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == 'N' || c == 'I' || c == '-') {
      for (const NonFiniteWord& non_finite : kNonFiniteWords) {
        const size_t length = non_finite.word.size();
        if (!absl::StartsWith(text.substr(i), non_finite.word)) continue;
        standard.text.replace(i, length, absl::StrCat("\"", std::string(length - 2, ' '), "\""));
        standard.non_finite[strings++] = non_finite.value;
        i += length - 1;
        break;
      }
    }
  }
  return standard;
}

// Extracts the reason from the library's message, which has the form
// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing
// object key - unexpected ...".
std::string Reason(const std::string& message) {
  const size_t column = message.find("column ");
  const size_t colon = message.find(": ", column == std::string::npos ? 0 : column);
  const std::string reason = colon == std::string::npos ? message : message.substr(colon + 2);
  return ShowText(reason, 150);
}

// True if `value` contains a number that is not finite.
bool HasNonFinite(const nlohmann::ordered_json& value) {
  if (value.is_number_float()) return !std::isfinite(value.get<double>());
  return value.is_structured() && std::any_of(value.begin(), value.end(), HasNonFinite);
}

// Returns a placeholder for a non-finite number, to be replaced by the word. JSON writers escape
// U+0001, so no string of the value itself is written like this.
std::string Placeholder(absl::string_view word) { return absl::StrCat("\x01", word, "\x01"); }

void ReplaceNonFinite(nlohmann::ordered_json* value) {
  if (value->is_structured()) {
    for (auto& item : *value) ReplaceNonFinite(&item);
  } else if (value->is_number_float() && !std::isfinite(value->get<double>())) {
    const double number = value->get<double>();
    *value = Placeholder(std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
  }
}

}  // namespace

template <typename Json>
absl::StatusOr<Json> ParseJson(absl::string_view text, const std::string& source) {
  if (absl::StartsWith(text, kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(source, ": empty, not JSON"));
  DPIPE_ASSIGN_OR_RETURN(const StandardText standard, ToStandard(text, source));
  size_t strings = 0;
  const typename Json::parser_callback_t set_non_finite =
      [&](int, typename Json::parse_event_t event, Json& parsed) {
        const bool is_key = event == Json::parse_event_t::key;
        if (!is_key && (event != Json::parse_event_t::value || !parsed.is_string())) return true;
        const auto it = standard.non_finite.find(strings++);
        if (it != standard.non_finite.end() && !is_key) parsed = it->second;
        return true;
      };
  try {
    return Json::parse(standard.text, standard.non_finite.empty() ? nullptr : set_non_finite);
  } catch (const typename Json::parse_error& error) {
    return ErrorAt(source, text, error.byte > 0 ? error.byte - 1 : 0, Reason(error.what()));
  } catch (const typename Json::exception& error) {  // a number too large for a double
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", ShowText(error.what(), 150)));
  }
}

template <typename Json>
absl::StatusOr<Json> ParseJsonObject(absl::string_view text, const std::string& source) {
  DPIPE_ASSIGN_OR_RETURN(Json json, ParseJson<Json>(text, source));
  if (json.is_object()) return json;
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": expected a JSON object {...}, found ", ShowJson(json)));
}

template absl::StatusOr<nlohmann::json> ParseJson(absl::string_view, const std::string&);
template absl::StatusOr<nlohmann::ordered_json> ParseJson(absl::string_view, const std::string&);
template absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view, const std::string&);
template absl::StatusOr<nlohmann::ordered_json> ParseJsonObject(absl::string_view,
                                                                const std::string&);

namespace {

std::string Write(const nlohmann::ordered_json& value, int indent, bool ascii) {
  const auto write = [indent, ascii](const nlohmann::ordered_json& json) {
    return json.dump(indent, ' ', ascii, nlohmann::ordered_json::error_handler_t::replace);
  };
  if (!HasNonFinite(value)) return write(value);
  nlohmann::ordered_json copy = value;
  ReplaceNonFinite(&copy);
  std::string text = write(copy);
  for (const NonFiniteWord& word : kNonFiniteWords) {
    text = absl::StrReplaceAll(
        text, {{absl::StrCat("\"\\u0001", word.word, "\\u0001\""), std::string(word.word)}});
  }
  return text;
}

}  // namespace

std::string JsonText(const nlohmann::ordered_json& value, int indent) {
  return Write(value, indent, /*ascii=*/false);
}

std::string ShowJson(const nlohmann::json& value) {
  return ShowText(Write(value, /*indent=*/-1, /*ascii=*/true));
}

}  // namespace dpipe
