// Quoting for shells.
#ifndef DPIPE_CORE_BASE_TEXT_SHELL_QUOTE_H_
#define DPIPE_CORE_BASE_TEXT_SHELL_QUOTE_H_

#include <string>
#include <vector>

namespace dpipe {

// Returns the words separated by spaces, quoted if necessary, for pasting into a shell.
std::string ShellCommand(const std::vector<std::string>& words);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_SHELL_QUOTE_H_
