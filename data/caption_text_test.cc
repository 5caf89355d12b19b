#include "data/caption_text.h"

#include "gtest/gtest.h"

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
      {"a\xe2\x82", "a\ufffd\ufffd"},                    // cut off
      {"\xff\xfe", "\ufffd\ufffd"},
  };
  for (const auto& [bytes, expected] : cases) {
    EXPECT_EQ(CaptionText(bytes), expected);
    EXPECT_FALSE(CheckUtf8(bytes).ok());
  }
}

TEST(CheckUtf8Test, NamesTheByteAndItsPlace) {
  EXPECT_EQ(CheckUtf8("caf\xe9 au lait").message(), "not UTF-8: byte 4 is 0xe9");
}

}  // namespace
}  // namespace dpipe
