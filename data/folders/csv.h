// Tables of comma-separated values.
#ifndef DPIPE_DATA_FOLDERS_CSV_H_
#define DPIPE_DATA_FOLDERS_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

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

}  // namespace dpipe

#endif  // DPIPE_DATA_FOLDERS_CSV_H_
