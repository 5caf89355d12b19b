// Sets gflags' flags from a command line. gflags' own parser ends the program where a flag does not
// exist, without its name and without a suggestion.
#ifndef DPIPE_CORE_COMMAND_LINE_PARSE_FLAGS_H_
#define DPIPE_CORE_COMMAND_LINE_PARSE_FLAGS_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "gflags/gflags.h"

namespace dpipe {

// The flags that the program defines, without those of gflags itself.
std::vector<gflags::CommandLineFlagInfo> ProgramFlags();

// The other name that a flag may be called by, or "": --out and --output are the same flag.
std::string OtherName(const std::string& name);

// --name=value, --name value, and of a bool --name and --noname; one dash does, too. Whether --help
// or -h is among them. A CommandLineError names the argument that is wrong; those before it are
// set.
absl::StatusOr<bool> ParseFlags(const std::vector<std::string>& arguments);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_PARSE_FLAGS_H_
