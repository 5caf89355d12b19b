#include "tools/sampling/scoring.h"

#include <algorithm>
#include <set>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dpipe::tools {
namespace {

constexpr int kSide = 64;

std::vector<Image> Render(const std::vector<ScorePrompt>& prompts) {
  std::vector<Image> images;
  for (const ScorePrompt& prompt : prompts) images.push_back(RenderScene(prompt.scene, kSide));
  return images;
}

TEST(ScoringTest, PromptsHaveTheRequestedObjects) {
  for (int objects : {1, 2}) {
    const auto prompts = DrawScorePrompts(/*seed=*/77, objects, 50);
    ASSERT_EQ(prompts.size(), 50u);
    std::set<std::string> captions;
    for (const ScorePrompt& prompt : prompts) {
      EXPECT_EQ(prompt.scene.objects.size(), static_cast<size_t>(objects));
      captions.insert(prompt.caption);
    }
    EXPECT_GT(captions.size(), 40u);
  }
}

TEST(ScoringTest, TrueImagesScoreFullMarks) {
  for (int objects : {1, 2}) {
    const auto prompts = DrawScorePrompts(5, objects, 60);
    const auto score = ScoreImages("real", prompts, Render(prompts));
    ASSERT_TRUE(score.ok()) << score.status();
    EXPECT_EQ(score->num_objects, objects);
    EXPECT_EQ(score->num_images, 60);
    EXPECT_GE(score->both, 59);
    EXPECT_EQ(score->relations, score->both);
  }
}

// Judges each image by the next one's caption, so it is right only by chance: 1 of 8 colours and 1
// of 5 shapes.
TEST(ScoringTest, OtherImagesScoreAtChance) {
  const auto prompts = DrawScorePrompts(5, 1, 400);
  auto images = Render(prompts);
  std::rotate(images.begin(), images.begin() + 1, images.end());
  const auto score = ScoreImages("shifted", prompts, images);
  ASSERT_TRUE(score.ok()) << score.status();
  EXPECT_NEAR(score->Share(score->colors), 1.0 / 8, 0.07);
  EXPECT_NEAR(score->Share(score->shapes), 1.0 / 5, 0.08);
  EXPECT_LT(score->Share(score->both), 0.08);
  EXPECT_LE(score->all, score->both);
}

TEST(ScoringTest, RecoloringIsSeenAsWrongColourAndRightShape) {
  auto prompts = DrawScorePrompts(5, 1, 30);
  std::vector<Image> images;
  for (const ScorePrompt& prompt : prompts) {
    Scene scene = prompt.scene;
    SceneColor& color = scene.objects[0].color;
    color = color == SceneColor::kRed ? SceneColor::kBlue : SceneColor::kRed;
    images.push_back(RenderScene(scene, kSide));
  }
  const auto score = ScoreImages("recoloured", prompts, images);
  ASSERT_TRUE(score.ok()) << score.status();
  EXPECT_EQ(score->colors, 0);
  EXPECT_GE(score->shapes, 29);
  EXPECT_EQ(score->both, 0);
}

TEST(ScoringTest, TableAndJsonSayTheSame) {
  Score one;
  one.subject = "out/train";
  one.num_objects = 1;
  one.num_images = 8;
  one.colors = 6;
  one.shapes = 4;
  one.both = one.relations = 2;
  one.all = 1;
  const report::Table table = ScoreTable({one});
  EXPECT_EQ(table.rows()[0],
            std::vector<std::string>({"out/train", "1", "8", "75 %", "50 %", "25 %", "-", "12 %"}));
  const auto json = nlohmann::json::parse(ScoresJson("out/train", {one}));
  EXPECT_EQ(json["model"], "out/train");
  EXPECT_EQ(json["scores"][0]["color"], 0.75);
  EXPECT_EQ(json["scores"][0]["both"], 0.25);
  EXPECT_EQ(json["scores"][0]["all"], 0.125);
}

}  // namespace
}  // namespace dpipe::tools
