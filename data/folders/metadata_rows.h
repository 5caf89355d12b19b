// Reads the rows of metadata.jsonl or metadata.csv, as written for Hugging Face's imagefolder.
#ifndef DPIPE_DATA_FOLDERS_METADATA_ROWS_H_
#define DPIPE_DATA_FOLDERS_METADATA_ROWS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "nlohmann/json_fwd.hpp"

namespace dpipe {

// A row of comma-separated values.
struct CsvRow {
  int64_t line;  // line on which the row begins, counted from 1
  std::vector<std::string> cells;
};

// Returns the rows of a text [RFC 4180]. Cells may be in quotes; inside them, a doubled quote means
// a quote, and commas and line breaks belong to the cell. Lines end in \r\n or \n. Skips empty
// lines and a leading byte-order mark. As in Python's csv, a quote inside an unquoted cell is
// literal. Rows may have different numbers of cells.
//
// Returns InvalidArgument, with the line, if a quote is never closed or text follows a closing
// quote.
absl::StatusOr<std::vector<CsvRow>> ParseCsv(absl::string_view text);

// Receives a row as a JSON object of its columns, or the error of an invalid row. Returns an error
// if the row cannot be used.
using TakeMetadataRow = std::function<absl::Status(absl::StatusOr<nlohmann::ordered_json> row)>;

// Calls `take` with the rows of a file in order. A file whose name ends in ".csv" begins with a
// line of column names; its cells are strings, and an empty cell is null. In other files, each
// non-empty line is a JSON object, as ParseJsonObject reads it. Text is UTF-8, or UTF-16 with a
// byte-order mark.
//
// Returns InvalidArgument if rows cannot be used ("PATH line 3: REASON" for the first five, and
// their number), if there are none, or if quotes of a .csv do not match. Also returns the errors of
// ReadFile.
absl::Status ReadMetadataRows(const std::string& path, const TakeMetadataRow& take);

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDERS_METADATA_ROWS_H_
