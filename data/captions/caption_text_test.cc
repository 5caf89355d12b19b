#include "data/captions/caption_text.h"

#include <string>
#include <string_view>

#include "core/base/text/encoding.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe {

namespace {

TEST(CaptionTextTest, MarksLineEndsAndSpaceAroundAreLeftOut) {
  EXPECT_EQ(CaptionText(" a cat\t\r\n"), "a cat");
  EXPECT_EQ(CaptionText("\xef\xbb\xbf a cat\r\n"), "a cat");
  EXPECT_EQ(CaptionText("a cat,\r\na dog\rand a fox\n\r\n"), "a cat,\na dog\rand a fox");
  EXPECT_EQ(CaptionText("\xef\xbb\xbf"), "");
  EXPECT_EQ(CaptionText(""), "");
}

TEST(CaptionTextTest, Utf8IsKept) {
  for (const char* text : {"caf\u00e9", "\u20ac", "\U0001f600", "\u07ff\u0800\ufffd\U0010ffff"}) {
    EXPECT_EQ(CaptionText(text), text);
    EXPECT_TRUE(CheckUtf8(text).ok()) << text;
  }
}

TEST(CaptionTextTest, OtherBytesAreReplaced) {
  const std::pair<std::string, std::string> cases[] = {
      {"caf\xe9 au lait", "caf\ufffd au lait"},  // Latin-1
      {"\xc0\x80", "\ufffd\ufffd"},              // overlong
      {"\xe0\x9f\xbf", "\ufffd\ufffd\ufffd"},
      {"\xf0\x8f\xbf\xbf", "\ufffd\ufffd\ufffd\ufffd"},
      {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},            // a surrogate
      {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},  // above U+10FFFF
      {"a\xe2\x82", "a\ufffd\ufffd"},                    // truncated
      {"\xff", "\ufffd"},
  };
  for (const auto& [bytes, expected] : cases) {
    bool is_utf8 = true;
    EXPECT_EQ(CaptionText(bytes, &is_utf8), expected);
    EXPECT_FALSE(is_utf8);
    EXPECT_FALSE(CheckUtf8(bytes).ok());
  }
  // The same for text in which another program has already replaced bytes.
  bool is_utf8 = true;
  EXPECT_EQ(CaptionText("caf\ufffd", &is_utf8), "caf\ufffd");
  EXPECT_FALSE(is_utf8);
}

std::string Utf16(std::u16string_view text, bool is_big_endian) {
  std::string bytes;
  for (const char16_t unit : text) {
    const char low = static_cast<char>(unit & 0xff), high = static_cast<char>(unit >> 8);
    bytes += is_big_endian ? std::string{high, low} : std::string{low, high};
  }
  return bytes;
}

TEST(CaptionTextTest, AByteOrderMarkDecidesUtf16) {
  for (const bool is_big_endian : {false, true}) {
    bool is_utf8 = false;
    EXPECT_EQ(
        CaptionText(Utf16(u"\ufeff caf\u00e9, \u20ac\U0001f600\r\nb\r\n", is_big_endian), &is_utf8),
        "caf\u00e9, \u20ac\U0001f600\nb");
    EXPECT_TRUE(is_utf8);
    // Unpaired surrogates, the last one at the end.
    const std::u16string halves = {0xfeff, u'a', 0xdc00, 0xd800, u'b', 0xd800};
    EXPECT_EQ(CaptionText(Utf16(halves, is_big_endian), &is_utf8), "a\ufffd\ufffdb\ufffd");
    EXPECT_FALSE(is_utf8);
    EXPECT_EQ(CaptionText(Utf16(u"\ufeffab", is_big_endian) + "c", &is_utf8), "ab\ufffd");
    EXPECT_FALSE(is_utf8);
    EXPECT_EQ(CaptionText(Utf16(u"\ufeff", is_big_endian), &is_utf8), "");
    EXPECT_TRUE(is_utf8);
  }
  bool is_utf8 = true;
  CaptionText(Utf16(u"ab", /*is_big_endian=*/false), &is_utf8);
  EXPECT_FALSE(is_utf8);
  EXPECT_EQ(DecodeText("\xef\xbb\xbf a\r\n"), " a\r\n");
  EXPECT_EQ(DecodeText("caf\xe9"), "caf\xe9");
}

TEST(CheckUtf8Test, NamesTheByteAndItsPlace) {
  EXPECT_EQ(CheckUtf8("caf\xe9 au lait").message(),
            "not UTF-8: byte 4 is 0xe9; save the file as UTF-8");
}

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
