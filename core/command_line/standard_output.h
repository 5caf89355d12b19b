// Detects lost output.
#ifndef DPIPE_CORE_COMMAND_LINE_STANDARD_OUTPUT_H_
#define DPIPE_CORE_COMMAND_LINE_STANDARD_OUTPUT_H_

#include <string>

namespace dpipe {

// Opens /dev/null as standard input, output or error if the caller closed it, so that no file that
// the program opens takes its number. Call this first in main.
void KeepStandardDescriptors();

// Flushes standard output at the end of `program` and returns its exit code. That is `code`, or 1
// if `code` is 0 and output was lost, which is then reported on standard error. A closed pipe (`|
// head`) is not an error, because the reader wanted no more.
int FinishStandardOutput(const std::string& program, int code);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_STANDARD_OUTPUT_H_
