#include "data/folders/metadata_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/files/file.h"
#include "core/base/text/encoding.h"
#include "core/base/text/json.h"
#include "data/captions/caption_text.h"
#include "nlohmann/json.hpp"

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

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxMetadataBytes = int64_t{4} << 30;

// Collects unusable rows: the first few by line, the others by number.
class BadRows {
 public:
  explicit BadRows(const std::string& path) : path_(path) {}

  void Count(int64_t line, const absl::Status& status) {
    ++num_rows_;
    if (status.ok()) return;
    ++num_bad_;
    if (named_.size() >= kMaxNamed) return;
    named_.push_back(absl::StrCat(path_, " line ", line, ": ", status.message()));
  }

  absl::Status Result() const {
    if (num_rows_ == 0) return absl::InvalidArgumentError(absl::StrCat(path_, ": no samples"));
    if (num_bad_ == 0) return absl::OkStatus();
    std::string message = absl::StrJoin(named_, "\n");
    if (num_bad_ > 1) {
      absl::StrAppend(&message, "\n", path_, ": ", num_bad_, " of its ", num_rows_,
                      " rows cannot be used");
    }
    return absl::InvalidArgumentError(message);
  }

 private:
  static constexpr size_t kMaxNamed = 5;

  const std::string& path_;
  int64_t num_rows_ = 0;
  int64_t num_bad_ = 0;
  std::vector<std::string> named_;
};

// Parses one line. Removes "SOURCE: line 1, " from errors, because BadRows knows the line.
absl::StatusOr<Json> ParseJsonRow(absl::string_view line) {
  constexpr char kSource[] = "row";
  DPIPE_RETURN_IF_ERROR(CheckUtf8(line));
  absl::StatusOr<Json> json = ParseJsonObject<Json>(line, kSource);
  if (json.ok()) return json;
  absl::string_view reason = json.status().message();
  absl::ConsumePrefix(&reason, absl::StrCat(kSource, ": "));
  absl::ConsumePrefix(&reason, "line 1, ");
  return absl::Status(json.status().code(), reason);
}

absl::Status ReadJsonLines(absl::string_view content, const TakeMetadataRow& take, BadRows* bad) {
  int64_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(content, '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) bad->Count(line_number, take(ParseJsonRow(line)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> JsonOfCells(const CsvRow& header, CsvRow row) {
  if (row.cells.size() != header.cells.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(row.cells.size(), " cells, but the first line names ", header.cells.size(),
                     " columns; put quotes around a cell that contains a comma"));
  }
  Json json = Json::object();
  for (size_t i = 0; i < row.cells.size(); ++i) {
    json[header.cells[i]] = row.cells[i].empty() ? Json() : Json(std::move(row.cells[i]));
  }
  return json;
}

absl::Status ReadCsvRows(const std::string& path, absl::string_view content,
                         const TakeMetadataRow& take, BadRows* bad) {
  absl::StatusOr<std::vector<CsvRow>> rows = ParseCsv(content);
  if (!rows.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " ", rows.status().message()));
  }
  for (size_t i = 1; i < rows->size(); ++i) {
    const int64_t line = (*rows)[i].line;
    bad->Count(line, take(JsonOfCells(rows->front(), std::move((*rows)[i]))));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadMetadataRows(const std::string& path, const TakeMetadataRow& take) {
  DPIPE_ASSIGN_OR_RETURN(std::string content, ReadFile(path, kMaxMetadataBytes));
  content = DecodeText(content);
  BadRows bad(path);
  DPIPE_RETURN_IF_ERROR(absl::EndsWith(path, ".csv") ? ReadCsvRows(path, content, take, &bad)
                                                     : ReadJsonLines(content, take, &bad));
  return bad.Result();
}

}  // namespace dpipe
