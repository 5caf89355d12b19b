// Which prompts a command is asked to draw.
#ifndef DPIPE_TOOLS_PROMPTS_H_
#define DPIPE_TOOLS_PROMPTS_H_

#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::tools {

// From `prompt`, several separated by '|', and from the lines of `file` (empty: none); blank ones
// are left out, and the others cleaned as captions are (CaptionText); each `count` times, equal
// ones in a row. InvalidArgument where none is left or count < 1; the file's errors are ReadFile's.
absl::StatusOr<std::vector<std::string>> CollectPrompts(const std::string& prompt,
                                                        const std::string& file, int count);

// 16 captions of the built-in data set's kind that training draws from time to time: every shape
// and every colour, then two objects in every relation.
const std::vector<std::string>& ExamplePrompts();

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_PROMPTS_H_
