// The captions in a JSON object: in a row of metadata, or in a .json member of a shard.
#ifndef DPIPE_DATA_CAPTION_COLUMN_H_
#define DPIPE_DATA_CAPTION_COLUMN_H_

#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "nlohmann/json_fwd.hpp"

namespace dpipe {

// Of one image; training draws one each time that it sees the image.
struct Captions {
  std::vector<std::string> texts;  // by CaptionText; none: the image has no caption
  bool are_utf8 = true;            // see CaptionText
};

class CaptionColumn {
 public:
  // The column `named`, or, if that is empty, the first of `usual` and `other_usual` that is there.
  CaptionColumn(std::string named, std::string usual, std::string other_usual)
      : named_(std::move(named)), usual_(std::move(usual)), other_usual_(std::move(other_usual)) {}

  // Returns the one caption of a string, or all of a list of strings; none if there is no such
  // column, or null or an empty list in it. InvalidArgument for another value.
  absl::StatusOr<Captions> Of(const nlohmann::ordered_json& row) const;

  // Returns the error for a row of which Of returns none: which column is missing, and what to do.
  absl::Status Missing(const nlohmann::ordered_json& row) const;

 private:
  const std::string& NameIn(const nlohmann::ordered_json& row) const;

  std::string named_;
  std::string usual_;
  std::string other_usual_;
};

// Returns "no column COLUMN; it has ...", with the first few columns of the row.
absl::Status NoColumn(const std::string& column, const nlohmann::ordered_json& row);

// Returns ""COLUMN" is VALUE, not WANTED".
absl::Status WrongType(const std::string& column, const nlohmann::ordered_json& value,
                       const std::string& wanted);

}  // namespace dpipe

#endif  // DPIPE_DATA_CAPTION_COLUMN_H_
