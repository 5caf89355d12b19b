#include "data/folders/metadata_rows.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::vector<std::string>> Cells(absl::string_view text) {
  const auto rows = ParseCsv(text);
  EXPECT_TRUE(rows.ok()) << rows.status();
  std::vector<std::vector<std::string>> cells;
  for (const CsvRow& row : *rows) cells.push_back(row.cells);
  return cells;
}

TEST(CsvTest, SplitsRowsAndCells) {
  EXPECT_THAT(Cells(""), ElementsAre());
  EXPECT_THAT(Cells("a,b\n1,2"), ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "2")));
  EXPECT_THAT(Cells("\xef\xbb\xbf"
                    "a,b\r\n1,\r\n"),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("1", "")));
  EXPECT_THAT(Cells("a\n\n\r\n,"), ElementsAre(ElementsAre("a"), ElementsAre("", "")));
  EXPECT_THAT(Cells(" a ,5\" wide"), ElementsAre(ElementsAre(" a ", "5\" wide")));
}

TEST(CsvTest, QuotedCellsHoldAnything) {
  EXPECT_THAT(Cells("\"a, \"\"b\"\"\",\"\"\n\"c\nd\r\n\",e"),
              ElementsAre(ElementsAre("a, \"b\"", ""), ElementsAre("c\nd\r\n", "e")));
}

TEST(CsvTest, RowsKnowTheirLines) {
  const auto rows = ParseCsv("a\n\n\"b\nc\"\r\nd");
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_EQ((*rows)[0].line, 1);
  EXPECT_EQ((*rows)[1].line, 3);
  EXPECT_EQ((*rows)[2].line, 5);
}

TEST(CsvTest, BadQuotesAreNamed) {
  EXPECT_THAT(std::string(ParseCsv("a\n\"b\nc").status().message()),
              HasSubstr("line 2: unterminated quoted cell"));
  EXPECT_THAT(std::string(ParseCsv("a\n\"b\"c").status().message()),
              HasSubstr("line 2: a closing quote must be followed by a comma"));
}

}  // namespace

}  // namespace dpipe
