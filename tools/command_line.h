// What the mains of this package share: a --help of one screen, flags, exit codes.
//
//   0  done
//   1  refused: a file, the values in it, or a request that cannot be met; why is on standard error
//   2  a command line that makes no sense
//   3  nothing fits in memory
//
// A flag that does not exist is gflags' to refuse, with 1.
#ifndef DPIPE_TOOLS_COMMAND_LINE_H_
#define DPIPE_TOOLS_COMMAND_LINE_H_

#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::tools {

struct Command {
  const char* name;   // begins every message; the flags shown are those of NAME.cc
  const char* usage;  // what it does, then examples
};

// Parses the flags, then runs `run`, which reads them. `run` writes what it has to say; a status
// that is not OK becomes a message and an exit code.
int RunCommand(int argc, char** argv, const Command& command,
               const std::function<absl::Status()>& run);

// The exit code for what a command ended with; says on standard error, after the command's name,
// why it failed.
int ExitCode(const char* name, const absl::Status& status);

// An InvalidArgument that ends the program with 2.
absl::Status CommandLineError(const std::string& message);

// CommandLineError, listing `choices`, if the flag `name` has another value.
absl::Status CheckChoice(const char* name, const std::string& value,
                         const std::vector<std::string>& choices);

// CommandLineError if the flag `name` is empty.
absl::Status RequireFlag(const char* name, const std::string& value);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_COMMAND_LINE_H_
