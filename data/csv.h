// Tables of comma-separated values.
#ifndef DPIPE_DATA_CSV_H_
#define DPIPE_DATA_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/status.h"

namespace dpipe {

struct CsvRow {
  int64_t line;  // in which it begins, counted from 1
  std::vector<std::string> cells;
};

// The rows of a text [RFC 4180]: cells may be in quotes, within which a doubled quote is a quote,
// and commas and line breaks are the cell's. Lines end in \r\n or \n; empty lines are no rows; a
// byte order mark in front is dropped. As Python's csv does, a quote inside a cell that does not
// begin with one stands for itself. Rows may differ in how many cells they have.
//
// InvalidArgument, with the line: a quote that is never closed, or text after a closing quote.
absl::StatusOr<std::vector<CsvRow>> ParseCsv(absl::string_view text);

}  // namespace dpipe

#endif  // DPIPE_DATA_CSV_H_
