#include "data/captions/caption_text.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/text/encoding.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"
#include "nlohmann/json.hpp"

namespace dpipe {

std::string CaptionText(absl::string_view bytes, bool* is_utf8) {
  const std::string decoded = DecodeText(bytes);
  const absl::string_view text = absl::StripAsciiWhitespace(decoded);
  std::string caption;
  for (size_t at = 0; at < text.size();) {
    const size_t count = Utf8CharacterBytes(text.substr(at));
    if (count == 0) {
      caption += kReplacementCharacter;
    } else if (!absl::StartsWith(text.substr(at), "\r\n")) {
      absl::StrAppend(&caption, text.substr(at, count));
    }
    at += count == 0 ? 1 : count;
  }
  // ASCII text in UTF-16 without a mark is UTF-8 with a NUL beside each character.
  if (is_utf8 != nullptr) {
    *is_utf8 =
        !absl::StrContains(caption, kReplacementCharacter) && !absl::StrContains(caption, '\0');
  }
  return caption;
}

absl::Status CheckUtf8(absl::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const size_t count = Utf8CharacterBytes(bytes.substr(at));
    if (count == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "not UTF-8: byte ", at + 1, " is 0x",
          absl::Hex(static_cast<uint8_t>(bytes[at]), absl::kZeroPad2), "; save the file as UTF-8"));
    }
    at += count;
  }
  return absl::OkStatus();
}

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxColumnBytes = 40;

std::string Quoted(const std::string& name) {
  return absl::StrCat("\"", ShowText(name, kMaxColumnBytes), "\"");
}

}  // namespace

const std::string& CaptionColumn::NameIn(const Json& row) const {
  if (!named_.empty()) return named_;
  return !row.contains(usual_) && row.contains(other_usual_) ? other_usual_ : usual_;
}

absl::StatusOr<Captions> CaptionColumn::Of(const Json& row) const {
  Captions captions;
  const std::string& column = NameIn(row);
  const auto it = row.find(column);
  if (it == row.end() || it->is_null()) return captions;
  const auto add = [&](const Json& text) {
    bool is_utf8 = true;
    captions.texts.push_back(CaptionText(text.get_ref<const std::string&>(), &is_utf8));
    captions.are_utf8 = captions.are_utf8 && is_utf8;
  };
  if (it->is_string()) {
    add(*it);
    return captions;
  }
  if (!it->is_array()) return WrongType(column, *it, "a string or a list of strings");
  for (const Json& text : *it) {
    if (!text.is_string()) return WrongType(column, *it, "a string or a list of strings");
    add(text);
  }
  return captions;
}

absl::Status CaptionColumn::Missing(const Json& row) const {
  const std::string& column = NameIn(row);
  if (row.contains(column)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(column), " has no caption (", kWithoutCaptions, ")"));
  }
  if (!named_.empty()) return NoColumn(Quoted(named_) + " (--data.caption_column)", row);
  return NoColumn(absl::StrCat("\"", usual_, "\" or \"", other_usual_,
                               "\": give the column of captions as --data.caption_column"),
                  row);
}

absl::Status NoColumn(const std::string& column, const Json& row) {
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items()) names.push_back(Quoted(name));
  return absl::InvalidArgumentError(absl::StrCat("no column ", column, "; it has ",
                                                 names.empty() ? "no columns" : ShowNames(names)));
}

absl::Status WrongType(const std::string& column, const Json& value, const std::string& wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(column), " is ", ShowJson(value), ", not ", wanted));
}

}  // namespace dpipe
