#include "models/tokenizer/bpe_trainer.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::ElementsAre;
using testing::Pair;

// Computed by hand: "ab" 3 times and "abc" twice. (a, b</w>) counts 3, (a, b) and (b, c</w>) 2
// each; then (a, b) comes first in byte order, then (ab, c</w>).
TEST(BpeTrainerTest, MergesTheMostFrequentPairFirst) {
  const TrainedBpe bpe = TrainBpe({"ab ab ab", "abc abc"}, {});
  EXPECT_THAT(bpe.merges, ElementsAre(Pair("a", "b</w>"), Pair("a", "b"), Pair("ab", "c</w>")));
  ASSERT_EQ(bpe.vocabulary.size(), 512u + 3 + 2);
  EXPECT_EQ(bpe.vocabulary[0], "!");
  EXPECT_EQ(bpe.vocabulary[256], "!</w>");
  EXPECT_EQ(bpe.vocabulary[512], "ab</w>");
  EXPECT_EQ(bpe.vocabulary[514], "abc</w>");
  EXPECT_EQ(bpe.vocabulary[515], "<|startoftext|>");
  EXPECT_EQ(bpe.vocabulary[516], "<|endoftext|>");
}

TEST(BpeTrainerTest, KeepsToItsLimits) {
  BpeTrainerOptions options;
  options.max_merges = 1;
  EXPECT_EQ(TrainBpe({"abc abc"}, options).merges.size(), 1u);
  options.max_merges = 100;
  options.min_count = 3;
  EXPECT_TRUE(TrainBpe({"abc abc"}, options).merges.empty());
  EXPECT_TRUE(TrainBpe({}, options).merges.empty());
}

TEST(BpeTrainerTest, SymbolsAreDistinct) {
  const TrainedBpe bpe = TrainBpe({"na\u00efve caf\u00e9 na\u00efve caf\u00e9"}, {});
  EXPECT_EQ(std::set<std::string>(bpe.vocabulary.begin(), bpe.vocabulary.end()).size(),
            bpe.vocabulary.size());
}

}  // namespace
}  // namespace dpipe
