// Tables for terminals and Markdown files.
//
//   Table table({"strategy", "img/s", "speedup"});
//   table.AddRow({"data_parallel", "118.2", "1.00x"});
//   table.AddRow({"diffusionpipe", "142.9", "1.21x"});
//   std::cout << table.ToText();
//
//   strategy       img/s  speedup
//   -------------  -----  -------
//   data_parallel  118.2    1.00x
//   diffusionpipe  142.9    1.21x
#ifndef DPIPE_CORE_REPORT_TABLE_H_
#define DPIPE_CORE_REPORT_TABLE_H_

#include <string>
#include <vector>

namespace dpipe::report {

// Terminal cells that a table should fit into.
inline constexpr int kTerminalWidth = 120;

class Table {
 public:
  enum class Align {
    kAuto,  // right if every cell other than "" and "-" begins like a number; else left
    kLeft,
    kRight,
  };

  explicit Table(std::vector<std::string> headers);

  // CHECK-fails if `column` does not exist.
  void SetAlign(int column, Align align);

  // Adds one cell per column. Missing cells stay empty; extra cells fail a CHECK. Cells are UTF-8,
  // one line each.
  void AddRow(std::vector<std::string> cells);

  int num_rows() const { return static_cast<int>(rows_.size()); }
  const std::vector<std::string>& headers() const { return headers_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

  // True if `column` is printed right-aligned.
  bool IsRightAligned(int column) const;

  // Returns columns padded to equal display width, two blanks apart, without trailing blanks. If a
  // line would be wider than kTerminalWidth and the last column is text, wraps that between words.
  std::string ToText() const;
  // Returns the display width of ToText's widest line.
  int TextWidth() const;

  // Returns a GitHub-flavoured Markdown table; "|" inside cells is escaped.
  std::string ToMarkdown() const;

 private:
  std::vector<std::string> headers_;
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;
};

// True if `text` reads as a quantity: an optional sign or "~", then a digit ("12", "-0.5 ms",
// "1.2x", "142.9 ±0.8", "31 %").
bool LooksNumeric(const std::string& text);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_TABLE_H_
