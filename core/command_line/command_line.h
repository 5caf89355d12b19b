// The parts that the mains of all programs share: --help, flags and exit codes.
//
//   0  success
//   1  refused: a file, its values, or a request that cannot be met (the reason is on standard
//      error); or the results or the output could not be written
//   2  an invalid command line
//   3  out of memory, on the devices planned for or on this machine
//   4  done, but a result is bad: invalid, or slower than it was
#ifndef DPIPE_CORE_COMMAND_LINE_COMMAND_LINE_H_
#define DPIPE_CORE_COMMAND_LINE_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

// The exit code of a program that is done, but one of whose results is bad.
inline constexpr int kBadResult = 4;

// Flags that --help shows together, in this order.
struct FlagGroup {
  std::string title;
  std::vector<std::string> flags;
};

struct Command {
  std::string name;   // begins every message
  std::string usage;  // the program's purpose, then examples
  // Flags in no group come last.
  std::vector<FlagGroup> groups = {};
  // About ten flags that --help shows first, and not again in their groups. Empty for a program of
  // few flags.
  std::vector<std::string> most_used = {};
};

// Parses the flags, checks their ranges (flag_range.h), then calls `run`, which reads the flags and
// writes its own output. Turns a status that is not OK into a message and an exit code. Exits with
// 3 if memory runs out (out_of_memory.h).
int RunCommand(int argc, char** argv, const Command& command,
               const std::function<absl::Status()>& run);

// The same for a `run` that chooses the exit code when it succeeds.
int RunCommandWithCode(int argc, char** argv, const Command& command,
                       const std::function<absl::StatusOr<int>()>& run);

// Returns the exit code for `status`. If it is not OK, also writes the command's name and the
// message to standard error.
int ExitCode(const std::string& name, const absl::Status& status);

// Returns an InvalidArgument that ends the program with 2.
absl::Status CommandLineError(const std::string& message);

// Returns `status` as a CommandLineError if it is not OK.
absl::Status AsCommandLineError(const absl::Status& status);

// Returns a CommandLineError that lists `choices` if the value of the flag `name` is not one of
// them.
absl::Status CheckChoice(const std::string& name, const std::string& value,
                         const std::vector<std::string>& choices);

// Returns a CommandLineError if the flag `name` is empty.
absl::Status RequireFlag(const std::string& name, const std::string& value);

// A flag whose value must be at least `min` when others are set. See flag_range.h for bounds that
// always hold.
struct LowerBound {
  std::string name;
  int64_t value;
  int64_t min;
};

// Returns a CommandLineError for the first flag that is below its bound.
absl::Status CheckAtLeast(const std::vector<LowerBound>& flags);

// Detects lost output.

// Opens /dev/null as standard input, output or error if the caller closed it, so that no file that
// the program opens takes its number. Call this first in main.
void KeepStandardDescriptors();

// Flushes standard output at the end of `program` and returns its exit code. That is `code`, or 1
// if `code` is 0 and output was lost, which is then reported on standard error. A closed pipe (`|
// head`) is not an error, because the reader wanted no more.
int FinishStandardOutput(const std::string& program, int code);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_COMMAND_LINE_H_
