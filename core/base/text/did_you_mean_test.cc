#include "core/base/text/did_you_mean.h"

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(DidYouMeanTest, DistancesByHand) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("steps", "steps"), 0u);
  EXPECT_EQ(EditDistance("stepz", "steps"), 1u);  // replaced
  EXPECT_EQ(EditDistance("step", "steps"), 1u);   // inserted
  EXPECT_EQ(EditDistance("setps", "steps"), 1u);  // neighbours transposed
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(DidYouMeanTest, NearNamesAreSuggested) {
  const std::vector<std::string> names = {"steps", "seed", "model.path", "prompt", "prompts_file"};
  EXPECT_EQ(DidYouMean("setps", names, "--"), "; did you mean --steps?");
  EXPECT_EQ(DidYouMean("promt", names, "--"), "; did you mean --prompt?");
  EXPECT_EQ(DidYouMean("sead", names, "--"), "; did you mean --seed?");
  EXPECT_EQ(DidYouMean("nothing_like_it", names, "--"), "");
  EXPECT_EQ(DidYouMean("", names, "--"), "");
  EXPECT_EQ(DidYouMean("x", {"y"}, "--"), "") << "no character is right";
}

TEST(DidYouMeanTest, EquallyNearNamesAreAllSuggested) {
  EXPECT_EQ(DidYouMean("beta3", {"beta1", "beta2", "eps"}, ""), "; did you mean beta1 or beta2?");
}

TEST(DidYouMeanTest, LastPartsAndGroupsOfPathsAreSuggested) {
  const std::vector<std::string> names = {"model.lora_rank", "model.image_size", "faults.dumps",
                                          "faults.max_skipped"};
  EXPECT_EQ(DidYouMean("lora_rank", names, "--"), "; did you mean --model.lora_rank?");
  EXPECT_EQ(DidYouMean("image_size", names, "--"), "; did you mean --model.image_size?");
  EXPECT_EQ(DidYouMean("faults", names, "--"),
            "; did you mean --faults.dumps or --faults.max_skipped?");
  EXPECT_EQ(DidYouMean("a", {"a.b", "a.c", "a.d", "a.e", "a.f"}, ""),
            "; did you mean a.b, a.c, a.d, a.e, ...?");
}

}  // namespace
}  // namespace dpipe
