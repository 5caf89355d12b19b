// Text files that people write with editors: configurations, suites, lists of prompts.
#ifndef DPIPE_CORE_BASE_TEXT_PLAIN_TEXT_H_
#define DPIPE_CORE_BASE_TEXT_PLAIN_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/files/file.h"
#include "core/base/status.h"

namespace dpipe {

// Returns the text in UTF-8 without a byte-order mark. Accepts UTF-8, and UTF-16 with a mark.
// Returns InvalidArgument, naming `source`, if one of the first four bytes of the result is zero:
// the file is binary, or UTF-16 or UTF-32 without a mark.
absl::StatusOr<std::string> PlainText(absl::string_view bytes, const std::string& source);

// The same for the content of a file or pipe named on a command line. Also returns the errors of
// ReadFileOrPipe.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         int64_t max_bytes = kMaxTextBytes);

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_TEXT_PLAIN_TEXT_H_
