#include "core/report/testing/xml_reader.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dpipe::report {
namespace {

bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == ':'; }

class Reader {
 public:
  explicit Reader(absl::string_view text) : text_(text) {}

  absl::StatusOr<std::vector<XmlElement>> Read() {
    if (absl::StartsWith(text_, "<!DOCTYPE")) at_ = text_.find('>') + 1;
    while (at_ < text_.size()) {
      if (text_[at_] != '<') {
        DPIPE_RETURN_IF_ERROR(ReadText());
      } else if (Next("</")) {
        DPIPE_RETURN_IF_ERROR(ReadEndTag());
      } else {
        DPIPE_RETURN_IF_ERROR(ReadStartTag());
      }
    }
    if (!open_.empty())
      return Error(absl::StrCat("<", elements_[open_.back()].name, "> is not closed"));
    if (elements_.empty()) return Error("no element");
    return std::move(elements_);
  }

 private:
  bool Next(absl::string_view what) const { return absl::StartsWith(text_.substr(at_), what); }

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("XML at ", at_, ": ", what, ", near \"", text_.substr(at_, 40), "\""));
  }

  std::string ReadName() {
    const size_t begin = at_;
    while (at_ < text_.size() && IsNameCharacter(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  void SkipBlanks() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }

  absl::Status CheckEntities(absl::string_view text) const {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '&') continue;
      const absl::string_view rest = text.substr(i);
      bool known = false;
      for (const char* entity : {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"}) {
        known |= absl::StartsWith(rest, entity);
      }
      if (!known) return Error("a bare &");
    }
    return absl::OkStatus();
  }

  absl::Status ReadText() {
    const absl::string_view text = text_.substr(at_, text_.find('<', at_) - at_);
    DPIPE_RETURN_IF_ERROR(CheckEntities(text));
    if (open_.empty() && !absl::StripAsciiWhitespace(text).empty())
      return Error("text outside of the root");
    if (!open_.empty()) absl::StrAppend(&elements_[open_.back()].text, text);
    at_ += text.size();
    return absl::OkStatus();
  }

  absl::Status ReadEndTag() {
    at_ += 2;
    const std::string name = ReadName();
    if (!Next(">")) return Error("a bad end tag");
    if (open_.empty() || elements_[open_.back()].name != name) {
      return Error(absl::StrCat("</", name, "> closes nothing that is open"));
    }
    open_.pop_back();
    ++at_;
    return absl::OkStatus();
  }

  absl::Status ReadAttribute(XmlElement* element) {
    const std::string name = ReadName();
    if (name.empty() || !Next("=\"")) return Error("a bad attribute");
    at_ += 2;
    const size_t end = text_.find('"', at_);
    if (end == absl::string_view::npos) return Error("an attribute without end");
    const absl::string_view value = text_.substr(at_, end - at_);
    DPIPE_RETURN_IF_ERROR(CheckEntities(value));
    if (absl::StrContains(value, "<")) return Error("< in an attribute");
    if (!element->attributes.emplace(name, std::string(value)).second)
      return Error("an attribute twice");
    at_ = end + 1;
    return absl::OkStatus();
  }

  absl::Status ReadStartTag() {
    ++at_;
    XmlElement element;
    element.name = ReadName();
    if (element.name.empty()) return Error("a bad tag");
    if (open_.empty() && !elements_.empty()) return Error("a second root");
    element.parent = open_.empty() ? -1 : open_.back();
    for (SkipBlanks(); at_ < text_.size() && !Next(">") && !Next("/>"); SkipBlanks()) {
      DPIPE_RETURN_IF_ERROR(ReadAttribute(&element));
    }
    const bool closed = Next("/>");
    if (!closed && !Next(">")) return Error("a tag without end");
    at_ += closed ? 2 : 1;
    if (!closed && (element.name == "script" || element.name == "style")) {
      const size_t end = text_.find(absl::StrCat("</", element.name, ">"), at_);
      if (end == absl::string_view::npos) return Error("raw text without end");
      element.text = std::string(text_.substr(at_, end - at_));
      at_ = end;
    }
    elements_.push_back(element);
    if (!closed) open_.push_back(static_cast<int>(elements_.size()) - 1);
    return absl::OkStatus();
  }

  const absl::string_view text_;
  size_t at_ = 0;
  std::vector<int> open_;
  std::vector<XmlElement> elements_;
};

}  // namespace

absl::StatusOr<std::vector<XmlElement>> ReadXml(absl::string_view text) {
  return Reader(text).Read();
}

}  // namespace dpipe::report
