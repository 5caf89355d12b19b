#include "core/command_line/flag_range.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/check.h"
#include "core/base/text/did_you_mean.h"
#include "core/command_line/command_line.h"

namespace dpipe {

namespace {

using gflags::CommandLineFlagInfo;

struct FoundFlag {
  CommandLineFlagInfo flag;
  bool is_negated = false;  // a bool flag with the prefix "no"
};

bool IsProgramFlag(const CommandLineFlagInfo& flag) {
  const size_t slash = flag.filename.rfind('/');
  const std::string file =
      slash == std::string::npos ? flag.filename : flag.filename.substr(slash + 1);
  return !absl::StartsWith(file, "gflags");
}

std::optional<CommandLineFlagInfo> FlagNamed(const std::string& name) {
  CommandLineFlagInfo flag;
  if (name.empty() || !gflags::GetCommandLineFlagInfo(name.c_str(), &flag)) return std::nullopt;
  return IsProgramFlag(flag) ? std::optional(flag) : std::nullopt;
}

absl::StatusOr<FoundFlag> FindFlag(const std::string& name) {
  for (const std::string& candidate : {name, OtherName(name)}) {
    if (auto flag = FlagNamed(candidate)) return FoundFlag{*std::move(flag), false};
  }
  if (absl::StartsWith(name, "no")) {
    auto flag = FlagNamed(name.substr(2));
    if (flag.has_value() && flag->type == "bool") return FoundFlag{*std::move(flag), true};
  }
  std::vector<std::string> names;
  for (const CommandLineFlagInfo& flag : ProgramFlags()) names.push_back(flag.name);
  return CommandLineError(absl::StrCat("there is no flag --", name, DidYouMean(name, names, "--")));
}

const char* KindOf(const CommandLineFlagInfo& flag) {
  if (flag.type == "bool") return "true or false";
  if (flag.type == "double") return "a number";
  if (absl::StartsWith(flag.type, "uint")) return "a non-negative whole number";
  return "a whole number";
}

absl::Status SetFlag(const std::string& typed_name, const CommandLineFlagInfo& flag,
                     const std::string& value) {
  if (!gflags::SetCommandLineOption(flag.name.c_str(), value.c_str()).empty()) {
    return absl::OkStatus();
  }
  const bool is_integer =
      value.find_first_not_of("0123456789", value[0] == '-') == std::string::npos;
  const bool out_of_range = flag.type != "bool" && value.size() > 1 && is_integer;
  return CommandLineError(absl::StrCat("--", typed_name, "=", value, ": '", value, "' is ",
                                       out_of_range
                                           ? absl::StrCat("out of the range of ", flag.type)
                                           : absl::StrCat("not ", KindOf(flag))));
}

}  // namespace

std::vector<CommandLineFlagInfo> ProgramFlags() {
  std::vector<CommandLineFlagInfo> all, own;
  gflags::GetAllFlags(&all);
  std::copy_if(all.begin(), all.end(), std::back_inserter(own), IsProgramFlag);
  return own;
}

std::string OtherName(const std::string& name) {
  return name == "out" ? "output" : name == "output" ? "out" : "";
}

absl::StatusOr<bool> ParseFlags(const std::vector<std::string>& arguments) {
  bool wants_help = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (!absl::ConsumePrefix(&argument, "-") || argument.empty() || argument == "-") {
      return CommandLineError(absl::StrCat("unexpected argument '", arguments[i], "'"));
    }
    absl::ConsumePrefix(&argument, "-");
    if (argument == "help" || argument == "h") {
      wants_help = true;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name(argument.substr(0, equals));
    DPIPE_ASSIGN_OR_RETURN(const FoundFlag found, FindFlag(name));
    const bool is_bool = found.flag.type == "bool";
    std::string value;
    if (equals != absl::string_view::npos) {
      if (found.is_negated) return CommandLineError(absl::StrCat("--", name, " takes no value"));
      value = std::string(argument.substr(equals + 1));
    } else if (is_bool) {
      value = found.is_negated ? "false" : "true";
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return CommandLineError(absl::StrCat("--", name, " has no value"));
    }
    DPIPE_RETURN_IF_ERROR(SetFlag(name, found.flag, value));
  }
  return wants_help;
}

namespace {

struct Bounds {
  double min, max;
};

// Created by the first static FlagRange, because their initialization order is unspecified.
std::map<std::string, Bounds>& Ranges() {
  static auto& ranges = *new std::map<std::string, Bounds>;
  return ranges;
}

bool IsNumeric(const std::string& type) {
  return type == "int32" || type == "int64" || type == "uint32" || type == "double";
}

// Writes 1000000000 instead of 1e+09.
std::string BoundText(double bound) {
  const bool is_whole = bound == std::floor(bound) && std::abs(bound) < 1e18;
  return is_whole ? absl::StrCat(static_cast<int64_t>(bound)) : absl::StrCat(bound);
}

absl::Status CheckRange(const gflags::CommandLineFlagInfo& flag, const Bounds& bounds) {
  double value = 0;
  DPIPE_CHECK(absl::SimpleAtod(flag.current_value, &value)) << flag.name;
  // gflags writes 17 digits of a double.
  const std::string text = flag.type == "double" ? absl::StrCat(value) : flag.current_value;
  const std::string flag_text = absl::StrCat("--", flag.name, "=", text);
  if (!std::isfinite(value)) return CommandLineError(flag_text + " must be a finite number");
  if (value < bounds.min) {
    return CommandLineError(absl::StrCat(flag_text, " must be at least ", BoundText(bounds.min)));
  }
  if (value > bounds.max) {
    return CommandLineError(absl::StrCat(flag_text, " must be at most ", BoundText(bounds.max)));
  }
  return absl::OkStatus();
}

}  // namespace

FlagRange::FlagRange(const char* name, double min, double max) { Ranges()[name] = {min, max}; }

absl::Status CheckFlagRanges() {
  for (const gflags::CommandLineFlagInfo& flag : ProgramFlags()) {
    if (!IsNumeric(flag.type)) continue;
    const auto found = Ranges().find(flag.name);
    DPIPE_CHECK(found != Ranges().end()) << "--" << flag.name << " needs a FLAG_RANGE";
    DPIPE_RETURN_IF_ERROR(CheckRange(flag, found->second));
  }
  return absl::OkStatus();
}

}  // namespace dpipe
