// Whether what a program printed has arrived.
#ifndef DPIPE_CORE_COMMAND_LINE_STANDARD_OUTPUT_H_
#define DPIPE_CORE_COMMAND_LINE_STANDARD_OUTPUT_H_

#include <string>

namespace dpipe {

// Gives standard input, output and error descriptors if the caller closed them, so that no file
// that the program opens takes their numbers. To be called first in main.
void KeepStandardDescriptors();

// Flushes standard output at the end of `program` and returns its exit code: `code`, or 1 if that
// is 0 and output was lost, which a message on standard error then says. A reader that has gone
// (`| head`) wanted no more: no error.
int FinishStandardOutput(const std::string& program, int code);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_STANDARD_OUTPUT_H_
