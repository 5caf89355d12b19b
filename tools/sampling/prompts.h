// Prompts from a command's flags.
#ifndef DPIPE_TOOLS_SAMPLING_PROMPTS_H_
#define DPIPE_TOOLS_SAMPLING_PROMPTS_H_

#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe::tools {

// Returns the prompts in `prompt`, separated by '|', and in the lines of `file` (empty: no file),
// each `count` times in a row. Cleans them as captions are (CaptionText) and skips blank ones.
// Returns InvalidArgument if there is no prompt, if count < 1, or if there are more than 1,000,000
// images. Errors of the file are ReadTextFile's.
absl::StatusOr<std::vector<std::string>> CollectPrompts(const std::string& prompt,
                                                        const std::string& file, int count);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_SAMPLING_PROMPTS_H_
