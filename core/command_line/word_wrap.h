// Text in columns for a terminal.
#ifndef DPIPE_CORE_COMMAND_LINE_WORD_WRAP_H_
#define DPIPE_CORE_COMMAND_LINE_WORD_WRAP_H_

#include <string>

namespace dpipe {

// `text` behind `head`, broken into lines of at most 100 characters that begin at column `indent`;
// the text begins on a line of its own where the head is longer than that.
std::string WrapWords(const std::string& head, size_t indent, const std::string& text);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMMAND_LINE_WORD_WRAP_H_
