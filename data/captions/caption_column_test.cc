#include "data/captions/caption_column.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Json = nlohmann::ordered_json;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(CaptionColumnTest, TheUsualColumnsAreTakenInTheirOrder) {
  const CaptionColumn column("", "text", "caption");
  EXPECT_THAT(column.Of(Json{{"text", "a"}, {"caption", "b"}})->texts, ElementsAre("a"));
  EXPECT_THAT(column.Of(Json{{"caption", " b\r\n"}})->texts, ElementsAre("b"));
  const CaptionColumn named("de", "text", "caption");
  EXPECT_THAT(named.Of(Json{{"text", "a"}, {"de", "c"}})->texts, ElementsAre("c"));
  EXPECT_THAT(named.Of(Json{{"text", "a"}})->texts, IsEmpty());
}

TEST(CaptionColumnTest, AListHasSeveralCaptions) {
  const CaptionColumn column("", "text", "caption");
  EXPECT_THAT(column.Of(Json{{"text", {"a", "b ", ""}}})->texts, ElementsAre("a", "b", ""));
  EXPECT_THAT(column.Of(Json{{"text", Json::array()}})->texts, IsEmpty());
  EXPECT_THAT(column.Of(Json{{"text", nullptr}})->texts, IsEmpty());
  EXPECT_EQ(Message(column.Of(Json{{"text", {"a", 5}}}).status()),
            "\"text\" is [\"a\",5], not a string or a list of strings");
  EXPECT_FALSE(column.Of(Json{{"text", {{"en", "a"}}}}).ok());
}

TEST(CaptionColumnTest, OtherEncodingsShow) {
  const CaptionColumn column("", "text", "caption");
  EXPECT_TRUE(column.Of(Json{{"text", {"a", "caf\u00e9"}}})->are_utf8);
  EXPECT_FALSE(column.Of(Json{{"text", {"a", "caf\xe9", "b"}}})->are_utf8);
}

TEST(CaptionColumnTest, MissingColumnsAreNamedBriefly) {
  Json row;
  for (int i = 0; i < 30; ++i) row["column " + std::to_string(i) + std::string(200, 'x')] = i;
  const std::string message = Message(CaptionColumn("", "text", "caption").Missing(row));
  EXPECT_THAT(message, testing::StartsWith("no column \"text\" or \"caption\": give the column of "
                                           "captions as --data.caption_column; it has \""));
  EXPECT_THAT(message, testing::EndsWith(" and 26 more"));
  EXPECT_LT(message.size(), 400u);
}

}  // namespace
}  // namespace dpipe
