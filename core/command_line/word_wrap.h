// Text in columns for a terminal.
#ifndef DPIPE_CORE_COMMAND_LINE_WORD_WRAP_H_
#define DPIPE_CORE_COMMAND_LINE_WORD_WRAP_H_

#include <string>

namespace dpipe {

// Returns `head` followed by `text`, wrapped into lines of at most 100 characters that begin at
// column `indent`. The text begins on a new line if the head is longer than that.
std::string WrapWords(const std::string& head, size_t indent, const std::string& text);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_WORD_WRAP_H_
