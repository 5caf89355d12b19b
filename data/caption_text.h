// Captions as all readers of data sets and prompts give them.
#ifndef DPIPE_DATA_CAPTION_TEXT_H_
#define DPIPE_DATA_CAPTION_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// What editors of Windows put in front of a text in UTF-8, which would be two tokens of a caption.
absl::string_view WithoutByteOrderMark(absl::string_view text);

// A caption from the bytes of a text file, or from a string in JSON: without a byte order mark,
// with \n where there was \r\n, and without white space (ASCII's) at either end. Each byte that is
// not part of well-formed UTF-8 becomes U+FFFD, as the tokenizer would have it.
std::string CaptionText(absl::string_view bytes);

// What to do about pictures without a caption, for messages.
inline constexpr char kWithoutCaptions[] =
    "--data.default_caption=TEXT gives such pictures a caption, --data.optional_captions trains on "
    "them without one";

// Whether JSON may be read from these bytes; InvalidArgument names the first that is not UTF-8 and
// its place, counted from 1.
absl::Status CheckUtf8(absl::string_view bytes);

}  // namespace dpipe

#endif  // DPIPE_DATA_CAPTION_TEXT_H_
