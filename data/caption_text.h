// Captions as all readers of data sets and prompts give them.
#ifndef DPIPE_DATA_CAPTION_TEXT_H_
#define DPIPE_DATA_CAPTION_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// Returns a caption from the bytes of a text file, or from a string in JSON: by DecodeText
// (core/base/text/encoding.h), with \n
// instead of \r\n, and without white space (ASCII's) at either end. Each byte that is not part of
// well-formed UTF-8 becomes U+FFFD, as in the tokenizer. `*is_utf8`, if it is wanted, becomes
// false if there is a U+FFFD or a NUL afterwards: the text was in another encoding, or damaged.
std::string CaptionText(absl::string_view bytes, bool* is_utf8 = nullptr);

// What to do about pictures without a caption, for messages.
inline constexpr char kWithoutCaptions[] =
    "--data.default_caption=TEXT gives such pictures a caption, --data.optional_captions trains on "
    "them without one";

// OK if JSON may be read from these bytes; InvalidArgument names the first byte that is not UTF-8
// and its place, counted from 1.
absl::Status CheckUtf8(absl::string_view bytes);

}  // namespace dpipe

#endif  // DPIPE_DATA_CAPTION_TEXT_H_
