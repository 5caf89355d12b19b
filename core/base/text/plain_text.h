// Text that people write with editors: configurations, suites, lists of prompts.
#ifndef DPIPE_CORE_BASE_TEXT_PLAIN_TEXT_H_
#define DPIPE_CORE_BASE_TEXT_PLAIN_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/status.h"

namespace dpipe {

// Returns the text in UTF-8 without a byte-order mark, from UTF-8 or, by its mark, UTF-16.
// InvalidArgument, naming `source`, if there is a zero among the first four bytes of what is then
// left: binary, or UTF-16 or UTF-32 without a mark.
absl::StatusOr<std::string> PlainText(absl::string_view bytes, const std::string& source);

// The same for the content of a file or pipe that a person names on a command line;
// ReadFileOrPipe's errors.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         int64_t max_bytes = kMaxTextBytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_PLAIN_TEXT_H_
