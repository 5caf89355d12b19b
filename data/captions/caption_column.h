// Captions in a JSON object: a metadata row, or the .json member of a shard.
#ifndef DPIPE_DATA_CAPTIONS_CAPTION_COLUMN_H_
#define DPIPE_DATA_CAPTIONS_CAPTION_COLUMN_H_

#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "nlohmann/json_fwd.hpp"

namespace dpipe {

// The captions of one image. Training draws one of them each time it uses the image.
struct Captions {
  std::vector<std::string> texts;  // from CaptionText; empty if the image has no caption
  bool are_utf8 = true;            // see CaptionText
};

// Finds and reads the column that contains the captions.
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

#endif  // DPIPE_DATA_CAPTIONS_CAPTION_COLUMN_H_
