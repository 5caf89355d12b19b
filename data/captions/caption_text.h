// Decoding of captions, shared by all readers of data sets and prompts.
#ifndef DPIPE_DATA_CAPTIONS_CAPTION_TEXT_H_
#define DPIPE_DATA_CAPTIONS_CAPTION_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

// Returns a caption from the bytes of a text file or of a JSON string. Decodes it with DecodeText
// (core/base/text/encoding.h), replaces \r\n by \n, and strips ASCII white space from both ends.
// Each byte that is not part of well-formed UTF-8 becomes U+FFFD, as in the tokenizer. Sets
// `*is_utf8`, if not null, to false if the result contains U+FFFD or NUL: the text had another
// encoding, or is damaged.
std::string CaptionText(absl::string_view bytes, bool* is_utf8 = nullptr);

// Advice about pictures without a caption, for messages.
inline constexpr char kWithoutCaptions[] =
    "--data.default_caption=TEXT gives such pictures a caption; --data.optional_captions trains on "
    "them without one";

// Returns OK if the bytes are UTF-8, as JSON requires. Returns InvalidArgument with the first
// invalid byte and its position, counted from 1.
absl::Status CheckUtf8(absl::string_view bytes);

}  // namespace dpipe

#endif  // DPIPE_DATA_CAPTIONS_CAPTION_TEXT_H_
