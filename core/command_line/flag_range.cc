#include "core/command_line/flag_range.h"

#include <cmath>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/command_line/command_line.h"
#include "core/command_line/parse_flags.h"

namespace dpipe {
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
