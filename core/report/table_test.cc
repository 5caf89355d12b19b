#include "core/report/table.h"

#include "absl/strings/str_cat.h"
#include "core/report/text_width.h"
#include "gtest/gtest.h"

namespace dpipe::report {
namespace {

TEST(DisplayWidthTest, CountsCellsNotBytes) {
  EXPECT_EQ(DisplayWidth(""), 0);
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("±0.5 µs"), 7);
  EXPECT_EQ(DisplayWidth("e\xcc\x81"), 1) << "e with a combining acute accent";
  EXPECT_EQ(DisplayWidth("漢字"), 4);
  EXPECT_EQ(DisplayWidth("😀"), 2);
  EXPECT_EQ(DisplayWidth("\xff\xe2"), 2) << "two bytes that are not UTF-8";
}

TEST(TruncateToWidthTest, NeverSplitsACharacter) {
  EXPECT_EQ(TruncateToWidth("abcdef", 6), "abcdef");
  EXPECT_EQ(TruncateToWidth("abcdef", 4), "abc…");
  EXPECT_EQ(TruncateToWidth("漢字漢字", 4), "漢…")
      << "a second wide character would make five cells";
  EXPECT_EQ(TruncateToWidth("abc", 0), "");
}

TEST(TableTest, NumbersAreRightAligned) {
  Table table({"strategy", "img/s", "note"});
  table.AddRow({"data_parallel", "8.2", "a"});
  table.AddRow({"x", "142.9 ±3", ""});
  table.AddRow({"y", "-", "long note"});
  EXPECT_EQ(table.ToText(),
            "strategy          img/s  note\n"
            "-------------  --------  ---------\n"
            "data_parallel       8.2  a\n"
            "x              142.9 ±3\n"
            "y                     -  long note\n");
}

TEST(TableTest, AlignmentCanBeForced) {
  Table table({"id", "n"});
  table.SetAlign(0, Table::Align::kRight);
  table.SetAlign(1, Table::Align::kLeft);
  table.AddRow({"abc", "1"});
  table.AddRow({"d", "22"});
  EXPECT_EQ(table.ToText(), " id  n\n---  --\nabc  1\n  d  22\n");
}

TEST(TableTest, ColumnOfNothingIsLeftAligned) {
  Table table({"a"});
  table.AddRow({"-"});
  EXPECT_FALSE(table.IsRightAligned(0));
}

TEST(TableTest, Markdown) {
  Table table({"name", "ms"});
  table.AddRow({"a|b", "1.5"});
  EXPECT_EQ(table.ToMarkdown(), "| name | ms |\n|---|---:|\n| a\\|b | 1.5 |\n");
}

TEST(LooksNumericTest, QuantitiesAndWords) {
  for (const char* text : {"1", "-0.5 ms", "~3", "+2", ".5", "31 %", "1.20x"}) {
    EXPECT_TRUE(LooksNumeric(text)) << text;
  }
  for (const char* text : {"", "-", "x1", "~", "inf"}) {
    EXPECT_FALSE(LooksNumeric(text)) << text;
  }
}

TEST(TableTest, LongTextInTheLastColumnIsWrapped) {
  Table table({"n", "outcome"});
  table.AddRow({"1", "short"});
  table.AddRow({"22", std::string(60, 'a') + " " + std::string(60, 'b') + " c"});
  EXPECT_EQ(table.ToText(),
            absl::StrCat(" n  outcome\n--  ", std::string(116, '-'), "\n 1  short\n22  ",
                         std::string(60, 'a'), "\n    ", std::string(60, 'b'), " c\n"));
  EXPECT_EQ(table.TextWidth(), kTerminalWidth);
  Table narrow({"n", "outcome"});
  narrow.AddRow({"1", std::string(57, 'a') + " " + std::string(58, 'b')});
  EXPECT_EQ(narrow.TextWidth(), 3 + 116) << "fits in one line";
  // Numbers stay whole.
  Table numbers({std::string(110, 'h'), "n"});
  numbers.AddRow({"x", "123456789 123456789"});
  EXPECT_GT(numbers.TextWidth(), kTerminalWidth);
}

}  // namespace
}  // namespace dpipe::report
