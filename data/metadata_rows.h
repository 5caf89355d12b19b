// The rows of a data set's metadata.jsonl or metadata.csv, as Hugging Face's imagefolder has them.
#ifndef DPIPE_DATA_METADATA_ROWS_H_
#define DPIPE_DATA_METADATA_ROWS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/status.h"
#include "nlohmann/json_fwd.hpp"

namespace dpipe {

// Gets a row as a JSON object of its columns, or why it cannot be one; what it returns is why the
// row cannot be used.
using TakeMetadataRow = std::function<absl::Status(absl::StatusOr<nlohmann::ordered_json> row)>;

// Hands out the rows of a file in their order. One whose name ends in ".csv" has a line with the
// names of its columns first; its cells are strings, and an empty one is null. In another, each
// line that is not empty is a JSON object, as ParseJsonObject reads it. Text is UTF-8, or UTF-16
// with a byte-order mark.
//
// InvalidArgument if rows cannot be used: "PATH line 3: REASON" of the first five, and how many
// there are; if there are none; or if quotes of a .csv do not match. Errors of ReadFile.
absl::Status ReadMetadataRows(const std::string& path, const TakeMetadataRow& take);

}  // namespace dpipe

#endif  // DPIPE_DATA_METADATA_ROWS_H_
