#include "core/report/table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/report/text_width.h"

namespace dpipe::report {
namespace {

bool IsBlank(const std::string& cell) { return cell.empty() || cell == "-"; }

// Pads `text` to `width` cells.
std::string Padded(const std::string& text, int width, bool right) {
  const std::string blanks(std::max(0, width - DisplayWidth(text)), ' ');
  return right ? blanks + text : text + blanks;
}

// The last column is never wrapped to fewer cells.
constexpr int kMinWrapped = 20;

// Returns `text` in lines of at most `width` cells, unless a word is longer; at least one line.
std::vector<std::string> Wrapped(const std::string& text, int width) {
  std::vector<std::string> lines(1);
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = std::string(word);
    } else if (DisplayWidth(line) + 1 + DisplayWidth(word) <= width) {
      absl::StrAppend(&line, " ", word);
    } else {
      lines.push_back(std::string(word));
    }
  }
  return lines;
}

}  // namespace

bool LooksNumeric(const std::string& text) {
  size_t at = 0;
  if (at < text.size() && (text[at] == '-' || text[at] == '+' || text[at] == '~')) ++at;
  if (at < text.size() && text[at] == '.') ++at;
  return at < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[at]));
}

Table::Table(std::vector<std::string> headers)
    : headers_(std::move(headers)), aligns_(headers_.size(), Align::kAuto) {}

void Table::SetAlign(int column, Align align) {
  DPIPE_CHECK(column >= 0 && column < static_cast<int>(headers_.size()));
  aligns_[column] = align;
}

void Table::AddRow(std::vector<std::string> cells) {
  DPIPE_CHECK(cells.size() <= headers_.size());
  cells.resize(headers_.size());
  rows_.push_back(std::move(cells));
}

bool Table::IsRightAligned(int column) const {
  if (aligns_[column] != Align::kAuto) return aligns_[column] == Align::kRight;
  bool any = false;
  for (const auto& row : rows_) {
    if (IsBlank(row[column])) continue;
    if (!LooksNumeric(row[column])) return false;
    any = true;
  }
  return any;
}

std::string Table::ToText() const {
  const int num_columns = static_cast<int>(headers_.size());
  std::vector<int> widths(num_columns);
  std::vector<bool> right(num_columns);
  int total = 2 * (num_columns - 1);
  for (int c = 0; c < num_columns; ++c) {
    widths[c] = DisplayWidth(headers_[c]);
    for (const auto& row : rows_) widths[c] = std::max(widths[c], DisplayWidth(row[c]));
    right[c] = IsRightAligned(c);
    total += widths[c];
  }
  const bool wraps = total > kTerminalWidth && !right.back();
  if (wraps) {
    const int room = widths.back() - (total - kTerminalWidth);
    widths.back() = std::max({room, DisplayWidth(headers_.back()), kMinWrapped});
  }
  std::string text;
  const auto append_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (int c = 0; c < num_columns; ++c) {
      absl::StrAppend(&line, c == 0 ? "" : "  ", Padded(cells[c], widths[c], right[c]));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  };
  append_line(headers_);
  std::vector<std::string> rule;
  for (const int width : widths) rule.push_back(std::string(width, '-'));
  append_line(rule);
  for (const std::vector<std::string>& row : rows_) {
    std::vector<std::string> cells = row;
    for (const std::string& line :
         wraps ? Wrapped(row.back(), widths.back()) : std::vector<std::string>{row.back()}) {
      cells.back() = line;
      append_line(cells);
      cells.assign(num_columns, "");
    }
  }
  return text;
}

int Table::TextWidth() const {
  int width = 0;
  for (const absl::string_view line : absl::StrSplit(ToText(), '\n')) {
    width = std::max(width, DisplayWidth(line));
  }
  return width;
}

std::string Table::ToMarkdown() const {
  std::string text;
  const auto append_line = [&](const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) {
      absl::StrAppend(&text, "| ", absl::StrReplaceAll(cell, {{"|", "\\|"}}), " ");
    }
    text += "|\n";
  };
  append_line(headers_);
  for (int c = 0; c < static_cast<int>(headers_.size()); ++c) {
    text += IsRightAligned(c) ? "|---:" : "|---";
  }
  text += "|\n";
  for (const auto& row : rows_) append_line(row);
  return text;
}

}  // namespace dpipe::report
