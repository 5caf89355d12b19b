#include "data/images/bitmap_text.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Image White(int width, int height) {
  Image image(width, height);
  std::fill(image.pixels.begin(), image.pixels.end(), uint8_t{255});
  return image;
}

// Rows of '#' and '.', separated by line breaks.
std::string Art(const Image& image) {
  std::string art;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) art += *image.At(x, y) == 0 ? '#' : '.';
    art += '\n';
  }
  return art;
}

std::string ArtOf(const std::string& line, int width) {
  Image image = White(width, 9);
  DrawText(line, 0, 0, 1, &image);
  return Art(image);
}

TEST(BitmapTextTest, LettersAreReadable) {
  EXPECT_EQ(ArtOf("Fg.", 17),
            "#####............\n"
            "#................\n"
            "#......####......\n"
            "####..#...#......\n"
            "#.....#...#......\n"
            "#.....#...#..##..\n"
            "#......####..##..\n"
            "..........#......\n"
            ".......###.......\n");
}

TEST(BitmapTextTest, LettersDiffer) {
  std::set<std::string> seen;
  for (char letter = ' '; letter <= '~'; ++letter) {
    EXPECT_TRUE(seen.insert(ArtOf(std::string(1, letter), 5)).second) << letter;
  }
  EXPECT_TRUE(seen.insert(ArtOf("…", 5)).second);
  EXPECT_TRUE(seen.insert(ArtOf("猫", 5)).second) << "a box";
  EXPECT_EQ(ArtOf("é", 5), ArtOf("e", 5));
  EXPECT_EQ(ArtOf("’", 5), ArtOf("'", 5));
  EXPECT_EQ(ArtOf("\xff", 5), ArtOf("猫", 5)) << "not UTF-8";
}

TEST(BitmapTextTest, ScaleEnlargesAndEdgesCut) {
  Image image = White(10, 4);
  DrawText("-", -2, -4, 2, &image);
  // The dash is at (1, 3) to (3, 3); enlarged, at (2, 6) to (7, 7); moved, at (0, 2) to (5, 3).
  EXPECT_EQ(Art(image), "..........\n..........\n######....\n######....\n");
}

TEST(WrapTextTest, BreaksAtSpaces) {
  EXPECT_THAT(WrapText("a large red circle", 11, 3), ElementsAre("a large red", "circle"));
  EXPECT_THAT(WrapText("a large red circle", 10, 3), ElementsAre("a large", "red circle"));
  EXPECT_THAT(WrapText("  a\nlarge\tred   circle ", 18, 1), ElementsAre("a large red circle"));
  EXPECT_THAT(WrapText("circle", 6, 1), ElementsAre("circle"));
  EXPECT_THAT(WrapText(" \n", 6, 1), IsEmpty());
}

TEST(WrapTextTest, LongWordsBreakAnywhere) {
  EXPECT_THAT(WrapText("an incomprehensible", 6, 9), ElementsAre("an", "incomp", "rehens", "ible"));
}

TEST(WrapTextTest, LongTextEndsInAnEllipsis) {
  EXPECT_THAT(WrapText("a red star above it", 6, 2), ElementsAre("a red", "star…"));
  EXPECT_THAT(WrapText("a red circle above it", 6, 2), ElementsAre("a red", "circl…"));
  EXPECT_THAT(WrapText("abc", 1, 1), ElementsAre("…"));
  EXPECT_THAT(WrapText("Käfer über Ähren", 8, 1), ElementsAre("Kafer…"));
}

}  // namespace
}  // namespace dpipe
