// Parsing of flags, and checks of their values.
#ifndef DPIPE_CORE_COMMAND_LINE_FLAG_RANGE_H_
#define DPIPE_CORE_COMMAND_LINE_FLAG_RANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "gflags/gflags.h"

namespace dpipe {

// Parsing: gflags' own parser ends the program on an unknown flag, without naming it and without a
// suggestion.

// Returns the flags that the program defines, without gflags' own.
std::vector<gflags::CommandLineFlagInfo> ProgramFlags();

// Returns the flag's other name, or "" if there is none: --out and --output are the same flag.
std::string OtherName(const std::string& name);

// Parses --name=value and --name value and, for a bool, --name and --noname; one dash works too.
// Returns true if --help or -h is among the arguments. Returns a CommandLineError that names the
// wrong argument; the flags before it have been set.
absl::StatusOr<bool> ParseFlags(const std::vector<std::string>& arguments);

// Bounds of numeric flags, stated beside the flag and checked before the program runs:
//
//   DEFINE_int32(steps, 30, "denoising steps");
//   FLAG_RANGE(steps, 1, 1000);
//
// Every numeric flag of a program needs one (except bool and uint64: seeds may be anything), so
// that no number from a command line reaches an allocation, a loop or a wait unchecked. A program
// checks narrower bounds itself if they depend on other flags or on the machine.

// The maximum for flags whose counts are limited by time alone (steps, images, repeats). Larger
// than any practical value, and small enough that sums and products with other flags fit into 64
// bits.
constexpr int64_t kMaxFlagCount = 1'000'000'000;

// Registers the bounds, both inclusive, of the flag `name`. For static objects: see FLAG_RANGE.
class FlagRange {
 public:
  FlagRange(const char* name, double min, double max);
};

// Returns a CommandLineError for the first flag, by name, that is not finite or out of its range:
// "--steps=0 must be at least 1". Dies if a numeric flag of the program has no range.
absl::Status CheckFlagRanges();

}  // namespace dpipe

#define FLAG_RANGE(name, min, max) \
  static const ::dpipe::FlagRange flag_range_##name(#name, min, max)

#endif  // DPIPE_CORE_COMMAND_LINE_FLAG_RANGE_H_
