// Words as a shell reads them.
#ifndef DPIPE_CORE_BASE_TEXT_SHELL_QUOTE_H_
#define DPIPE_CORE_BASE_TEXT_SHELL_QUOTE_H_

#include <string>
#include <vector>

namespace dpipe {

// Words with a space between them, each in quotes where it needs them: what can be copied into a
// shell.
std::string ShellCommand(const std::vector<std::string>& words);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_SHELL_QUOTE_H_
