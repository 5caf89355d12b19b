// Text that people write with editors: configurations, suites, lists of prompts.
#ifndef DPIPE_CORE_BASE_TEXT_PLAIN_TEXT_H_
#define DPIPE_CORE_BASE_TEXT_PLAIN_TEXT_H_

#include <cstdint>
#include <string>

#include "core/base/file.h"
#include "core/base/status.h"

namespace dpipe {

// Returns `text` without the UTF-8 byte-order mark that editors on Windows put before it.
// InvalidArgument, naming `source`, if it is UTF-16 or UTF-32, by its byte-order mark or, without
// one, by a zero among its first four bytes.
absl::StatusOr<std::string> PlainText(std::string text, const std::string& source);

// The same for the content of a file or pipe that a person names on a command line;
// ReadFileOrPipe's errors.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         int64_t max_bytes = kMaxTextBytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_PLAIN_TEXT_H_
