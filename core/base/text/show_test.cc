#include "core/base/text/show.h"

#include <string>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(Utf8PrefixTest, EndsBetweenCharacters) {
  const std::string text = "aé€😀";  // 1, 2, 3 and 4 bytes
  EXPECT_EQ(Utf8Prefix(text, 0), 0u);
  EXPECT_EQ(Utf8Prefix(text, 1), 1u);
  EXPECT_EQ(Utf8Prefix(text, 2), 1u);
  EXPECT_EQ(Utf8Prefix(text, 3), 3u);
  EXPECT_EQ(Utf8Prefix(text, 5), 3u);
  EXPECT_EQ(Utf8Prefix(text, 6), 6u);
  EXPECT_EQ(Utf8Prefix(text, 9), 6u);
  EXPECT_EQ(Utf8Prefix(text, 10), 10u);
  EXPECT_EQ(Utf8Prefix(text, 99), 10u);
}

TEST(Utf8PrefixTest, CutsInvalidTextAnywhere) {
  EXPECT_EQ(Utf8Prefix("\x80\x80\x80\x80\x80\x80", 4), 4u);
}

TEST(ShowTextTest, KeepsPrintableText) { EXPECT_EQ(ShowText("größe"), "größe"); }

TEST(ShowTextTest, EscapesControlCharactersAndInvalidBytes) {
  EXPECT_EQ(ShowText(std::string("a\n\x1b[1m\0\xff", 8)), "a\\n\\x1b[1m\\x00\\xff");
  EXPECT_EQ(ShowText("\xc0\xaf\xed\xa0\x80"), "\\xc0\\xaf\\xed\\xa0\\x80");
}

TEST(ShowTextTest, CutsLongTextAtACharacter) {
  EXPECT_EQ(ShowText("ééé", 5), "éé...");
  EXPECT_EQ(ShowText(std::string(101, 'x')), std::string(100, 'x') + "...");
  EXPECT_EQ(ShowText(std::string(100, 'x')), std::string(100, 'x'));
}

TEST(ShowNamesTest, ListsFiveAndCountsTheRest) {
  EXPECT_EQ(ShowNames({}), "");
  EXPECT_EQ(ShowNames({"a", "b", "c", "d", "e"}), "a, b, c, d, e");
  EXPECT_EQ(ShowNames({"a", "b", "c", "d", "e", "f", "g"}), "a, b, c, d, e and 2 more");
  const std::string name(80, 'n');
  EXPECT_EQ(ShowNames({name, name, name, name}), name + ", " + name + " and 2 more");
}

}  // namespace
}  // namespace dpipe
