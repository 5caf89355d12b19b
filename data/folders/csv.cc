#include "data/folders/csv.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/text/encoding.h"

namespace dpipe {
namespace {

class CsvParser {
 public:
  explicit CsvParser(absl::string_view text) : rest_(text) {}

  absl::StatusOr<std::vector<CsvRow>> Run() {
    std::vector<CsvRow> rows;
    while (!rest_.empty()) {
      if (TakeLineEnd()) continue;
      DPIPE_ASSIGN_OR_RETURN(CsvRow row, TakeRow());
      rows.push_back(std::move(row));
    }
    return rows;
  }

 private:
  bool AtLineEnd() const {
    return rest_.empty() || rest_[0] == '\n' || rest_.substr(0, 2) == "\r\n";
  }

  bool TakeLineEnd() {
    if (!absl::ConsumePrefix(&rest_, "\r\n") && !absl::ConsumePrefix(&rest_, "\n")) return false;
    ++line_;
    return true;
  }

  // Consumes a row and its line end.
  absl::StatusOr<CsvRow> TakeRow() {
    CsvRow row = {line_, {}};
    do {
      std::string cell;
      if (absl::ConsumePrefix(&rest_, "\"")) {
        DPIPE_ASSIGN_OR_RETURN(cell, TakeQuoted());
      } else {
        cell = TakePlain();
      }
      row.cells.push_back(std::move(cell));
    } while (absl::ConsumePrefix(&rest_, ","));
    TakeLineEnd();
    return row;
  }

  std::string TakePlain() {
    size_t end = 0;
    while (end < rest_.size() && rest_[end] != ',' && rest_[end] != '\n') ++end;
    const bool before_newline = end < rest_.size() && rest_[end] == '\n';
    if (before_newline && end > 0 && rest_[end - 1] == '\r') --end;
    std::string cell(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return cell;
  }

  // Consumes the text after an opening quote, and the closing quote.
  absl::StatusOr<std::string> TakeQuoted() {
    const int64_t opened_in = line_;
    std::string cell;
    while (true) {
      const size_t quote = rest_.find('"');
      if (quote == absl::string_view::npos) {
        return absl::InvalidArgumentError(
            absl::StrCat("line ", opened_in, ": unterminated quoted cell"));
      }
      const absl::string_view part = rest_.substr(0, quote);
      line_ += std::count(part.begin(), part.end(), '\n');
      absl::StrAppend(&cell, part);
      rest_.remove_prefix(quote + 1);
      if (!absl::ConsumePrefix(&rest_, "\"")) break;
      cell += '"';
    }
    if (AtLineEnd() || rest_[0] == ',') return cell;
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_,
                     ": a closing quote must be followed by a comma or the end of "
                     "the line; write a quote within quotes twice"));
  }

  absl::string_view rest_;
  int64_t line_ = 1;
};

}  // namespace

absl::StatusOr<std::vector<CsvRow>> ParseCsv(absl::string_view text) {
  return CsvParser(WithoutByteOrderMark(text)).Run();
}

}  // namespace dpipe
