// The text of --help.
#ifndef DPIPE_CORE_COMMAND_LINE_FLAG_HELP_H_
#define DPIPE_CORE_COMMAND_LINE_FLAG_HELP_H_

#include <string>

#include "core/command_line/command_line.h"

namespace dpipe {

// Returns the command's usage, then its flags by group, with their defaults.
std::string HelpText(const Command& command);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_FLAG_HELP_H_
