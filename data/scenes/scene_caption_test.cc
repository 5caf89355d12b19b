#include "data/scenes/scene_caption.h"

#include <set>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(SceneCaptionTest, ReadsTheFullForm) {
  const auto claim =
      ParseCaption("a large red circle left of a small blue square on a gray background");
  ASSERT_TRUE(claim.ok()) << claim.status();
  ASSERT_EQ(claim->objects.size(), 2u);
  EXPECT_EQ(claim->objects[0].color, SceneColor::kRed);
  EXPECT_EQ(claim->objects[0].shape, SceneShape::kCircle);
  EXPECT_EQ(claim->objects[0].is_large, true);
  EXPECT_EQ(claim->objects[1].color, SceneColor::kBlue);
  EXPECT_EQ(claim->objects[1].shape, SceneShape::kSquare);
  EXPECT_EQ(claim->objects[1].is_large, false);
  EXPECT_EQ(claim->relation, SceneRelation::kLeftOf);
  EXPECT_EQ(claim->background, SceneBackground::kGray);
}

TEST(SceneCaptionTest, ReadsTheShortForm) {
  const auto claim = ParseCaption("An orange star");
  ASSERT_TRUE(claim.ok()) << claim.status();
  ASSERT_EQ(claim->objects.size(), 1u);
  EXPECT_FALSE(claim->objects[0].is_large.has_value());
  EXPECT_FALSE(claim->background.has_value());
}

TEST(SceneCaptionTest, RejectsTextOutsideTheGrammar) {
  for (const char* text :
       {"", "red circle", "a red", "a red dog", "a pink circle", "a red circle near a blue square",
        "a red circle left a blue square", "a red circle on a pink background",
        "a red circle on a black background today", "a red circle to left of a blue square"}) {
    EXPECT_FALSE(ParseCaption(text).ok()) << text;
  }
  EXPECT_EQ(ParseCaption("a pink circle").status().message(),
            "caption: expected a colour, found \"pink\"");
}

// Compares the claims of a caption with the scene it was written from.
TEST(SceneCaptionTest, CaptionsAreTrue) {
  std::set<std::string> wordings;
  for (int i = 0; i < 4000; ++i) {
    const Scene scene = DrawScene(/*seed=*/5, i);
    const std::string caption = CaptionOfScene(scene, 5, i);
    const auto claim = ParseCaption(caption);
    ASSERT_TRUE(claim.ok()) << caption << ": " << claim.status();
    ASSERT_EQ(claim->objects.size(), scene.objects.size()) << caption;
    EXPECT_EQ(claim->background.value_or(scene.background), scene.background) << caption;
    const bool swapped = claim->objects[0].color != scene.objects[0].color;
    for (size_t k = 0; k < claim->objects.size(); ++k) {
      const SceneObject& object = scene.objects[swapped ? 1 - k : k];
      EXPECT_EQ(claim->objects[k].color, object.color) << caption;
      EXPECT_EQ(claim->objects[k].shape, object.shape) << caption;
      EXPECT_EQ(claim->objects[k].is_large.value_or(object.is_large), object.is_large);
    }
    if (scene.objects.size() == 1) continue;
    const SceneObject& a = scene.objects[swapped ? 1 : 0];
    const SceneObject& b = scene.objects[swapped ? 0 : 1];
    const bool holds = claim->relation == SceneRelation::kLeftOf    ? a.center_x < b.center_x
                       : claim->relation == SceneRelation::kRightOf ? a.center_x > b.center_x
                       : claim->relation == SceneRelation::kAbove   ? a.center_y < b.center_y
                                                                    : a.center_y > b.center_y;
    EXPECT_TRUE(holds) << caption;
  }
}

TEST(SceneCaptionTest, WordingVaries) {
  const Scene scene = DrawScene(/*seed=*/5, 0);
  std::set<std::string> captions;
  for (int i = 0; i < 100; ++i) {
    RandomStream random(9, i, 0, RandomPurpose::kTest);
    captions.insert(WriteCaption(scene, random));
  }
  EXPECT_GE(captions.size(), 4u);
}

}  // namespace
}  // namespace dpipe
