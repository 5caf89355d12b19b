// What the mains of all programs share: a --help, flags, exit codes.
//
//   0  done
//   1  refused: a file, the values in it, or a request that cannot be met; why is on standard
//      error; or results, or what was printed, could not be written
//   2  a command line that makes no sense
//   3  nothing fits in memory, of the devices planned for or of this machine
#ifndef DPIPE_CORE_COMMAND_LINE_COMMAND_LINE_H_
#define DPIPE_CORE_COMMAND_LINE_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

// Flags that --help shows together, in this order.
struct FlagGroup {
  std::string title;
  std::vector<std::string> flags;
};

struct Command {
  std::string name;   // begins every message
  std::string usage;  // what it does, then examples
  // Flags that are in none of them come last.
  std::vector<FlagGroup> groups = {};
  // The exit code for a wrong command line, of programs for which 2 is a result.
  int wrong_command_line = 2;
};

// Parses the flags and checks their ranges (flag_range.h), then runs `run`, which reads them. `run`
// writes what it has to say; a status that is not OK becomes a message and an exit code. Memory
// that runs out ends the process with 3 (out_of_memory.h).
int RunCommand(int argc, char** argv, const Command& command,
               const std::function<absl::Status()>& run);

// The same of a `run` that chooses the exit code where it succeeds.
int RunCommandWithCode(int argc, char** argv, const Command& command,
                       const std::function<absl::StatusOr<int>()>& run);

// The exit code for what a command ended with; says on standard error, after the command's name,
// why it failed.
int ExitCode(const std::string& name, const absl::Status& status);

// An InvalidArgument that ends the program with 2.
absl::Status CommandLineError(const std::string& message);

// `status` as a CommandLineError, where it is not OK.
absl::Status AsCommandLineError(const absl::Status& status);

// CommandLineError, listing `choices`, if the flag `name` has another value.
absl::Status CheckChoice(const std::string& name, const std::string& value,
                         const std::vector<std::string>& choices);

// CommandLineError if the flag `name` is empty.
absl::Status RequireFlag(const std::string& name, const std::string& value);

// A flag whose value must not be less than `least` when others are set; see flag_range.h for bounds
// that always hold.
struct LowerBound {
  std::string name;
  int64_t value;
  int64_t least;
};

// CommandLineError for the first flag that is below its bound.
absl::Status CheckAtLeast(const std::vector<LowerBound>& flags);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_COMMAND_LINE_H_
