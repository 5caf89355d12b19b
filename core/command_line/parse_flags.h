// Sets gflags' flags from a command line. gflags' own parser ends the program on an unknown flag,
// without naming it and without a suggestion.
#ifndef DPIPE_CORE_COMMAND_LINE_PARSE_FLAGS_H_
#define DPIPE_CORE_COMMAND_LINE_PARSE_FLAGS_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "gflags/gflags.h"

namespace dpipe {

// Returns the flags that the program defines, without gflags' own.
std::vector<gflags::CommandLineFlagInfo> ProgramFlags();

// Returns the flag's other name, or "" if there is none: --out and --output are the same flag.
std::string OtherName(const std::string& name);

// Parses --name=value and --name value and, for a bool, --name and --noname; one dash works too.
// Returns true if --help or -h is among the arguments. Returns a CommandLineError that names the
// wrong argument; the flags before it have been set.
absl::StatusOr<bool> ParseFlags(const std::vector<std::string>& arguments);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_PARSE_FLAGS_H_
