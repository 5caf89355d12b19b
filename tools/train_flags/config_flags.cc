#include "tools/train_flags/config_flags.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/text/did_you_mean.h"
#include "core/base/text/plain_text.h"
#include "core/base/text/show.h"
#include "core/command_line/flag_help.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "tools/train_flags/config_tree.h"

namespace dpipe::tools {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::vector<std::string> FlagNames(const std::vector<ConfigLeaf>& leaves) {
  std::vector<std::string> names;
  for (const ConfigLeaf& leaf : leaves) {
    names.push_back(leaf.path);
    names.insert(names.end(), leaf.info.alias().begin(), leaf.info.alias().end());
  }
  return names;
}

const ConfigLeaf* FindLeaf(const std::vector<ConfigLeaf>& leaves, const std::string& name) {
  for (const ConfigLeaf& leaf : leaves) {
    const auto& aliases = leaf.info.alias();
    if (leaf.path == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end()) {
      return &leaf;
    }
  }
  return nullptr;
}

// Returns the leaf that a flag names. Sets `is_negated` if it is a bool with the prefix "no".
absl::StatusOr<const ConfigLeaf*> LeafOfFlag(const std::vector<ConfigLeaf>& leaves,
                                             const std::string& name, bool* is_negated) {
  *is_negated = false;
  if (const ConfigLeaf* leaf = FindLeaf(leaves, name)) return leaf;
  if (absl::StartsWith(name, "no")) {
    const ConfigLeaf* leaf = FindLeaf(leaves, name.substr(2));
    if (leaf != nullptr && leaf->is_bool()) {
      *is_negated = true;
      return leaf;
    }
  }
  std::string hint = DidYouMean(name, FlagNames(leaves), "--");
  for (const ConfigLeaf& leaf : leaves) {
    const auto& elsewhere = leaf.info.elsewhere();
    if (std::find(elsewhere.begin(), elsewhere.end(), name) == elsewhere.end()) continue;
    hint =
        absl::StrCat("; here it is --", leaf.info.alias_size() > 0 ? leaf.info.alias(0) : leaf.path,
                     ": ", leaf.info.doc());
  }
  return absl::InvalidArgumentError(absl::StrCat("there is no flag --", ShowText(name), hint));
}

// Returns the expected kind of value, for messages.
const char* KindOf(const ConfigLeaf& leaf) {
  switch (leaf.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a non-negative whole number";
    default:
      return "a whole number";
  }
}

// Returns false if `text` is not of the leaf's type or is out of its range.
bool StoreItem(const ConfigLeaf& leaf, const std::string& text, Message* holder) {
  const Reflection& reflection = *holder->GetReflection();
  const bool is_list = leaf.field->is_repeated();
  const auto store = [&](auto value, auto set, auto add) {
    is_list ? (reflection.*add)(holder, leaf.field, value)
            : (reflection.*set)(holder, leaf.field, value);
    return true;
  };
  switch (leaf.field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value;
      return absl::SimpleAtob(text, &value) &&
             store(value, &Reflection::SetBool, &Reflection::AddBool);
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value;
      return absl::SimpleAtoi(text, &value) &&
             store(value, &Reflection::SetInt32, &Reflection::AddInt32);
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value;
      return absl::SimpleAtoi(text, &value) &&
             store(value, &Reflection::SetInt64, &Reflection::AddInt64);
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value;
      return absl::SimpleAtoi(text, &value) &&
             store(value, &Reflection::SetUInt64, &Reflection::AddUInt64);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value;
      return absl::SimpleAtod(text, &value) &&
             store(value, &Reflection::SetDouble, &Reflection::AddDouble);
    }
    case FieldDescriptor::CPPTYPE_STRING:
      is_list ? reflection.AddString(holder, leaf.field, text)
              : reflection.SetString(holder, leaf.field, text);
      return true;
    default:
      return false;
  }
}

// Formats 1e9 as 1000000000, not 1e+09.
std::string BoundText(double bound) {
  const bool is_whole = bound == std::floor(bound) && bound < 1e18;
  return is_whole ? absl::StrCat(static_cast<int64_t>(bound)) : absl::StrCat(bound);
}

// Returns text such as "a number, at least 0 and less than 1".
std::string Allowed(const ConfigLeaf& leaf) {
  if (leaf.info.choices_size() > 0) {
    return absl::StrCat(
        "one of ",
        absl::StrJoin(leaf.info.choices(), ", ", [](std::string* out, const std::string& choice) {
          absl::StrAppend(out, choice.empty() ? "empty" : choice);
        }));
  }
  std::vector<std::string> bounds;
  if (leaf.info.has_min()) bounds.push_back(absl::StrCat("at least ", leaf.info.min()));
  if (leaf.info.has_above()) bounds.push_back(absl::StrCat("more than ", leaf.info.above()));
  if (leaf.info.has_max()) bounds.push_back(absl::StrCat("at most ", BoundText(leaf.info.max())));
  if (leaf.info.has_below()) bounds.push_back(absl::StrCat("less than ", leaf.info.below()));
  return absl::StrCat(KindOf(leaf), bounds.empty() ? "" : ", ", absl::StrJoin(bounds, " and "));
}

bool IsAllowed(const FieldInfo& info, const std::string& item) {
  if (info.choices_size() > 0) {
    return std::find(info.choices().begin(), info.choices().end(), item) != info.choices().end();
  }
  if (!info.has_min() && !info.has_above() && !info.has_max() && !info.has_below()) return true;
  double value;
  if (!absl::SimpleAtod(item, &value)) return false;
  return !(info.has_min() && !(value >= info.min())) &&
         !(info.has_above() && !(value > info.above())) &&
         !(info.has_max() && !(value <= info.max())) &&
         !(info.has_below() && !(value < info.below()));
}

// Records the first error of a parse.
class FirstParseError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (has_error) return;
    has_error = true;
    // Lines and columns count from 0; line -1 means the whole text.
    where = line < 0 ? "" : absl::StrCat(":", line + 1, ":", column + 1);
    what = message;
  }
  void AddWarning(int, int, const std::string&) override {}

  bool has_error = false;
  std::string where, what;
};

// Rewrites Protobuf's message for an unknown field, which begins like this:
//   Message type "dpipe.tools.OptimizerConfig" has no field named "rate".
std::string Explained(const std::string& message, const Message& config) {
  const std::vector<std::string> quoted = absl::StrSplit(message, '"');
  if (quoted.size() < 4 || !absl::StrContains(message, "has no field named")) return message;
  const auto* type = config.GetDescriptor()->file()->pool()->FindMessageTypeByName(quoted[1]);
  if (type == nullptr) return message;
  std::vector<std::string> names;
  for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
  const std::string suggestion = DidYouMean(quoted[3], names, "");
  return absl::StrCat("there is no field ", ShowText(quoted[3]), " in ", type->name(),
                      suggestion.empty() ? absl::StrCat("; it has ", ShowNames(names),
                                                        "; --print_config shows the whole")
                                         : suggestion);
}

}  // namespace

absl::Status MergeConfigText(const std::string& content, const std::string& path, Message* config) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, PlainText(content, path));
  google::protobuf::TextFormat::Parser parser;
  FirstParseError error;
  parser.RecordErrorsTo(&error);
  std::unique_ptr<Message> parsed(config->New());
  if (!parser.ParseFromString(text, parsed.get())) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, error.where, ": ", Explained(error.what, *config)));
  }
  // A list in the file replaces the whole list.
  for (const ConfigLeaf& leaf : ConfigLeaves(*config->GetDescriptor())) {
    if (!leaf.field->is_repeated()) continue;
    const Message& holder = HolderOf(leaf, *parsed);
    if (holder.GetReflection()->FieldSize(holder, leaf.field) == 0) continue;
    Message* target = MutableHolderOf(leaf, config);
    target->GetReflection()->ClearField(target, leaf.field);
  }
  config->MergeFrom(*parsed);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ConfigFlag>> SplitFlags(const std::vector<std::string>& arguments,
                                                   const Message& config) {
  const std::vector<ConfigLeaf> leaves = ConfigLeaves(*config.GetDescriptor());
  std::vector<ConfigFlag> flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::ConsumePrefix(&argument, "-") || argument.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected argument '", ShowText(arguments[i]), "'"));
    }
    absl::ConsumePrefix(&argument, "-");
    ConfigFlag flag;
    const size_t equals = argument.find('=');
    flag.has_value = equals != absl::string_view::npos;
    flag.name = std::string(argument.substr(0, equals));
    if (flag.has_value) flag.value = std::string(argument.substr(equals + 1));
    const ConfigLeaf* leaf = FindLeaf(leaves, flag.name);
    // Unknown flags are left to the caller to reject; they do not take the next argument.
    if (!flag.has_value && leaf != nullptr && !leaf->is_bool() && i + 1 < arguments.size()) {
      flag.value = arguments[++i];
      flag.has_value = true;
    }
    flags.push_back(std::move(flag));
  }
  return flags;
}

absl::Status ApplyConfigFlag(const ConfigFlag& flag, Message* config) {
  const std::vector<ConfigLeaf> leaves = ConfigLeaves(*config->GetDescriptor());
  bool is_negated;
  DPIPE_ASSIGN_OR_RETURN(const ConfigLeaf* leaf, LeafOfFlag(leaves, flag.name, &is_negated));
  std::string value = flag.value;
  if (!flag.has_value) {
    if (!leaf->is_bool()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag.name, " has no value; it must be ", Allowed(*leaf)));
    }
    value = is_negated ? "false" : "true";
  } else if (is_negated) {
    return absl::InvalidArgumentError(absl::StrCat("--", flag.name, "=", ShowText(flag.value),
                                                   ": --", flag.name, " takes no value"));
  }
  Message* holder = MutableHolderOf(*leaf, config);
  std::vector<std::string> items = {value};
  if (leaf->field->is_repeated()) {
    holder->GetReflection()->ClearField(holder, leaf->field);
    items = absl::StrSplit(value, leaf->is_text() ? '|' : ',', absl::SkipEmpty());
  }
  for (const std::string& item : items) {
    if (!StoreItem(*leaf, item, holder)) {
      return absl::InvalidArgumentError(absl::StrCat("--", flag.name, "=", ShowText(value), ": '",
                                                     ShowText(item), "' is not ", Allowed(*leaf)));
    }
    if (!IsAllowed(leaf->info, item)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag.name, "=", ShowText(value), ": it must be ", Allowed(*leaf)));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConfig(const Message& config) {
  for (const ConfigLeaf& leaf : ConfigLeaves(*config.GetDescriptor())) {
    const std::string value = ValueText(leaf, config);
    std::vector<std::string> items = {value};
    if (leaf.field->is_repeated()) {
      items = absl::StrSplit(value, leaf.is_text() ? '|' : ',', absl::SkipEmpty());
    }
    for (const std::string& item : items) {
      if (IsAllowed(leaf.info, item)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(leaf.path, "=", ShowText(value), ": it must be ", Allowed(leaf)));
    }
  }
  return absl::OkStatus();
}

std::string ConfigHelp(const Message& config) {
  constexpr size_t kIndent = 36;
  const std::unique_ptr<Message> defaults(config.New());
  // With the name that is shown, the others are in brackets.
  const auto help = [&](const ConfigLeaf& leaf, const std::string& name) {
    const std::string value = ValueText(leaf, *defaults);
    std::vector<std::string> others;
    if (name != leaf.path) others.push_back(leaf.path);
    for (const std::string& alias : leaf.info.alias()) {
      if (alias != name) others.push_back(alias);
    }
    std::string doc = leaf.info.doc();
    if (!others.empty()) absl::StrAppend(&doc, " [--", absl::StrJoin(others, ", --"), "]");
    return WrapWords(absl::StrCat("  --", name, value.empty() ? "" : "=", value), kIndent, doc);
  };
  const std::vector<ConfigLeaf> leaves = ConfigLeaves(*config.GetDescriptor());
  std::string most_used, others;
  const FieldDescriptor* section = nullptr;
  for (const ConfigLeaf& leaf : leaves) {
    if (leaf.info.most_used()) {
      most_used += help(leaf, leaf.info.alias().empty() ? leaf.path : leaf.info.alias(0));
      continue;
    }
    const FieldDescriptor* const own = leaf.sections.empty() ? nullptr : leaf.sections[0];
    if (std::exchange(section, own) != own && !others.empty()) others += "\n";
    others += help(leaf, leaf.path);
  }
  return most_used.empty() ? others : absl::StrCat(kMostUsed, ":\n", most_used, "\n", others);
}

std::string WholeConfigText(const Message& config) {
  const std::unique_ptr<Message> whole(config.New());
  whole->CopyFrom(config);
  for (const ConfigLeaf& leaf : ConfigLeaves(*config.GetDescriptor())) {
    if (leaf.field->is_repeated()) continue;
    StoreItem(leaf, ValueText(leaf, config), MutableHolderOf(leaf, whole.get()));
  }
  std::string text;
  google::protobuf::TextFormat::PrintToString(*whole, &text);
  return text;
}

std::vector<std::string> ConfigDifferences(const Message& config) {
  const std::unique_ptr<Message> defaults(config.New());
  std::vector<std::string> differences;
  for (const ConfigLeaf& leaf : ConfigLeaves(*config.GetDescriptor())) {
    const std::string value = ValueText(leaf, config);
    if (value != ValueText(leaf, *defaults)) {
      differences.push_back(absl::StrCat(leaf.path, "=", value));
    }
  }
  return differences;
}

std::map<std::string, std::string> ConfigValues(const Message& config) {
  std::map<std::string, std::string> values;
  for (const ConfigLeaf& leaf : ConfigLeaves(*config.GetDescriptor())) {
    values[leaf.path] = ValueText(leaf, config);
  }
  return values;
}

std::vector<std::string> ConfigPaths(const Message& config) {
  std::vector<std::string> paths;
  for (const ConfigLeaf& leaf : ConfigLeaves(*config.GetDescriptor())) paths.push_back(leaf.path);
  return paths;
}

std::vector<std::string> ConfigTextFields(const Message& config) {
  std::vector<std::string> paths;
  for (const ConfigLeaf& leaf : ConfigLeaves(*config.GetDescriptor())) {
    if (leaf.is_text() && leaf.info.choices().empty()) paths.push_back(leaf.path);
  }
  return paths;
}

}  // namespace dpipe::tools
