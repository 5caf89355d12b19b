#include "models/tokenizer/pieces.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PiecesTest, WordsNumbersAndTheRest) {
  EXPECT_THAT(SplitIntoPieces("A large Red circle."),
              ElementsAre("a", "large", "red", "circle", "."));
  EXPECT_THAT(SplitIntoPieces("It's 42!"), ElementsAre("it", "'s", "4", "2", "!"));
  EXPECT_THAT(SplitIntoPieces("(wow...) x2"), ElementsAre("(", "wow", "...)", "x", "2"));
}

TEST(PiecesTest, Contractions) {
  EXPECT_THAT(
      SplitIntoPieces("we'll they've I'm he'd don't you're"),
      ElementsAre("we", "'ll", "they", "'ve", "i", "'m", "he", "'d", "don", "'t", "you", "'re"));
  EXPECT_THAT(SplitIntoPieces("IT'S"), ElementsAre("it", "'s"));
  EXPECT_THAT(SplitIntoPieces("'xs'"), ElementsAre("'", "xs", "'"));
  EXPECT_THAT(SplitIntoPieces("''s"), ElementsAre("''", "s"));
}

TEST(PiecesTest, WhitespaceOnlySeparates) {
  EXPECT_THAT(SplitIntoPieces(""), IsEmpty());
  EXPECT_THAT(SplitIntoPieces(" \t\r\n\u3000"), IsEmpty());
  EXPECT_THAT(SplitIntoPieces("  a\u00a0b\n\nc "), ElementsAre("a", "b", "c"));
}

TEST(PiecesTest, AccentsMayBeComposedOrNot) {
  EXPECT_THAT(SplitIntoPieces("CAF\u00c9"), ElementsAre("caf\u00e9"));
  EXPECT_THAT(SplitIntoPieces("CAFE\u0301"), ElementsAre("caf\u00e9"));
}

TEST(PiecesTest, SpecialTokensInTextAreSplit) {
  EXPECT_THAT(SplitIntoPieces("<|ENDOFTEXT|>!"), ElementsAre("<|", "endoftext", "|>", "!"));
  EXPECT_THAT(SplitIntoPieces("<|endoftex|>!"), ElementsAre("<|", "endoftex", "|>!"));
}

}  // namespace
}  // namespace dpipe
