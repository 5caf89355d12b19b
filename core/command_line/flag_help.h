// The text of --help.
#ifndef DPIPE_CORE_COMMAND_LINE_FLAG_HELP_H_
#define DPIPE_CORE_COMMAND_LINE_FLAG_HELP_H_

#include <string>

#include "core/command_line/command_line.h"

namespace dpipe {

// Text in columns for a terminal.
//
// Returns `head` followed by `text`, wrapped into lines of at most 100 characters that begin at
// column `indent`. The text begins on a new line if the head is longer than that.
std::string WrapWords(const std::string& head, size_t indent, const std::string& text);

// The title of the flags that --help shows first.
inline constexpr char kMostUsed[] = "Most used";

// Returns the command's usage, then its most used flags, then the others by group, with their
// defaults. Dies if the command names a flag that does not exist, or two groups have the same one.
std::string HelpText(const Command& command);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_FLAG_HELP_H_
