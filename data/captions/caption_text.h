// Decoding of captions, shared by all readers of data sets and prompts.
#ifndef DPIPE_DATA_CAPTIONS_CAPTION_TEXT_H_
#define DPIPE_DATA_CAPTIONS_CAPTION_TEXT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "nlohmann/json_fwd.hpp"

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

// The captions of one image. Training draws one of them each time it uses the image.
struct Captions {
  std::vector<std::string> texts;  // from CaptionText; empty if the image has no caption
  bool are_utf8 = true;            // see CaptionText
};

// Finds and reads the column that contains the captions in a JSON object: a metadata row, or the
// .json member of a shard.
class CaptionColumn {
 public:
  // Uses the column `named` or, if that is empty, the first of `usual` and `other_usual` that
  // exists.
  CaptionColumn(std::string named, std::string usual, std::string other_usual)
      : named_(std::move(named)), usual_(std::move(usual)), other_usual_(std::move(other_usual)) {}

  // Returns the caption of a string, or all captions of a list of strings. Returns no captions if
  // the column is missing, null or an empty list. Returns InvalidArgument for any other value.
  absl::StatusOr<Captions> Of(const nlohmann::ordered_json& row) const;

  // Returns the error for a row without captions: the missing column, and the flags that help.
  absl::Status Missing(const nlohmann::ordered_json& row) const;

 private:
  const std::string& NameIn(const nlohmann::ordered_json& row) const;

  std::string named_;
  std::string usual_;
  std::string other_usual_;
};

// Returns an error "no column COLUMN; it has ...", with the first few columns of the row.
absl::Status NoColumn(const std::string& column, const nlohmann::ordered_json& row);

// Returns an error: "COLUMN" is VALUE, not WANTED.
absl::Status WrongType(const std::string& column, const nlohmann::ordered_json& value,
                       const std::string& wanted);

}  // namespace dpipe

#endif  // DPIPE_DATA_CAPTIONS_CAPTION_TEXT_H_
