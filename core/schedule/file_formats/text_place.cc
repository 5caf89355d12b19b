#include "core/schedule/file_formats/text_place.h"

#include <cctype>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr int kTabWidth = 8;  // of protobuf's tokenizer

// An open message, and how often each of its fields has been seen so far.
struct OpenMessage {
  const Descriptor* type = nullptr;  // null if the text does not name a known field
  std::string path;
  std::map<std::string, int> seen;
};

class Reader {
 public:
  explicit Reader(const Descriptor& type) { open_.push_back({&type, "", {}}); }

  // Takes one character outside blanks, comments and strings.
  void Take(char c) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      if (!in_word_) word_.clear();
      in_word_ = true;
      word_ += c;
      return;
    }
    in_word_ = false;
    if (c == ':') {
      field_ = word_;
    } else if (c == '[') {
      in_list_ = !field_.empty();
    } else if (c == ',' && in_list_) {
      ++open_.back().seen[field_];
    } else if (c == ']') {
      in_list_ = false;
      EndValue();
    } else if (c == '{' || c == '<') {
      Open(field_.empty() ? word_ : field_);
    } else if ((c == '}' || c == '>') && open_.size() > 1) {
      open_.pop_back();
      field_.clear();
    }
  }

  // Ends the current word at a blank, a comment or a string.
  void EndWord() { in_word_ = false; }
  // Ends a value: the next word is a field name.
  void EndValue() {
    in_word_ = false;
    if (in_list_) return;
    if (!field_.empty()) ++open_.back().seen[field_];
    field_.clear();
  }
  bool AfterColon() const { return !field_.empty(); }

  std::string Path() const { return field_.empty() ? open_.back().path : PathOf(field_); }

 private:
  const FieldDescriptor* Find(const std::string& name) const {
    const Descriptor* type = open_.back().type;
    return type == nullptr ? nullptr : type->FindFieldByName(name);
  }

  std::string PathOf(const std::string& name) const {
    const OpenMessage& parent = open_.back();
    std::string path = absl::StrCat(parent.path, parent.path.empty() ? "" : ".", name);
    const FieldDescriptor* field = Find(name);
    if (field == nullptr || !field->is_repeated()) return path;
    const auto seen = parent.seen.find(name);
    return absl::StrCat(path, "[", seen == parent.seen.end() ? 0 : seen->second, "]");
  }

  void Open(const std::string& name) {
    const FieldDescriptor* field = Find(name);
    OpenMessage message;
    message.type = field == nullptr ? nullptr : field->message_type();
    message.path = PathOf(name);
    ++open_.back().seen[name];
    open_.push_back(message);
    field_.clear();
    in_list_ = false;
  }

  std::vector<OpenMessage> open_;
  std::string word_;   // the last word
  std::string field_;  // the field whose value is being read; empty between fields
  bool in_word_ = false;
  bool in_list_ = false;  // inside the brackets of a list of values
};

}  // namespace

std::string FieldAt(const std::string& text, int line, int column, const Descriptor& type) {
  Reader reader(type);
  int at_line = 0, at_column = 0;
  char quote = 0;
  bool comment = false, in_value = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (at_line > line || (at_line == line && at_column >= column)) break;
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') {
        ++i;
        ++at_column;
      } else if (c == quote || c == '\n') {
        quote = 0;
        reader.EndValue();
      }
    } else if (c == '\n' || (!comment && std::isspace(static_cast<unsigned char>(c)))) {
      comment = false;
      if (in_value) reader.EndValue();
      reader.EndWord();
      in_value = false;
    } else if (c == '#') {
      comment = true;
    } else if (!comment && (c == '"' || c == '\'')) {
      quote = c;
    } else if (!comment) {
      reader.Take(c);
      in_value = reader.AfterColon() && c != ':';
    }
    if (c == '\n') {
      ++at_line;
      at_column = 0;
    } else {
      at_column = c == '\t' ? (at_column / kTabWidth + 1) * kTabWidth : at_column + 1;
    }
  }
  return reader.Path();
}

}  // namespace dpipe
