#include "tools/sampling/condition_adherence.h"

#include <cmath>

#include "gtest/gtest.h"

namespace dpipe::tools {
namespace {

Scene OneObject(SceneShape shape, float x, float y, float radius) {
  Scene scene;
  SceneObject object;
  object.shape = shape;
  object.color = SceneColor::kYellow;
  object.center_x = x;
  object.center_y = y;
  object.radius = radius;
  scene.objects = {object};
  return scene;
}

TEST(ConditionAdherenceTest, TheSceneItselfFollowsPerfectly) {
  int count = 0;
  for (int index = 0; count < 20; ++index) {
    const Scene scene = DrawScene(/*seed=*/5, index);
    if (scene.objects.size() != 1) continue;
    ++count;
    const Adherence adherence = MeasureAdherence(RenderScene(scene, 64), scene);
    EXPECT_GT(adherence.f1, 0.99) << index;
    EXPECT_GT(adherence.overlap, 0.85) << index;  // small objects lose pixels at the edge
    EXPECT_TRUE(adherence.shape_is_right && adherence.color_is_right) << index;
    EXPECT_LT(adherence.distance_pixels, 1) << index;
  }
}

TEST(ConditionAdherenceTest, AMovedObjectDoesNot) {
  const Scene scene = OneObject(SceneShape::kSquare, 0.3f, 0.3f, 0.2f);
  const Image moved = RenderScene(OneObject(SceneShape::kSquare, 0.7f, 0.7f, 0.2f), 64);
  const Adherence adherence = MeasureAdherence(moved, scene);
  EXPECT_LT(adherence.f1, 0.1);
  EXPECT_LT(adherence.overlap, 0.05);
  EXPECT_TRUE(adherence.shape_is_right);
  EXPECT_NEAR(adherence.distance_pixels, 64 * 0.4 * std::sqrt(2.0), 1);
}

// A square of 20 pixels in one of 40: a quarter of the area, and outlines far apart.
TEST(ConditionAdherenceTest, ASmallerObjectOverlapsByItsArea) {
  const float half_diagonal = std::sqrt(2.0f) / 2;
  const Scene scene = OneObject(SceneShape::kSquare, 0.5f, 0.5f, 40.0f / 64 * half_diagonal);
  const Image small =
      RenderScene(OneObject(SceneShape::kSquare, 0.5f, 0.5f, 20.0f / 64 * half_diagonal), 64);
  const Adherence adherence = MeasureAdherence(small, scene);
  EXPECT_NEAR(adherence.overlap, 0.25, 0.03);
  EXPECT_EQ(adherence.f1, 0);
}

TEST(ConditionAdherenceTest, NothingDrawnScoresNothing) {
  const Scene scene = OneObject(SceneShape::kCircle, 0.5f, 0.5f, 0.2f);
  const AdherenceScore score = ScoreAdherence("nothing", {Image(64, 64)}, {scene});
  EXPECT_EQ(score.f1, 0);
  EXPECT_EQ(score.overlap, 0);
  EXPECT_EQ(score.shape, 0);
  EXPECT_EQ(score.distance_pixels, 32);
}

TEST(ConditionAdherenceTest, MeansAreOverImages) {
  const Scene scene = OneObject(SceneShape::kCircle, 0.5f, 0.5f, 0.2f);
  const AdherenceScore score =
      ScoreAdherence("half", {RenderScene(scene, 64), Image(64, 64)}, {scene, scene});
  EXPECT_NEAR(score.f1, 0.5, 0.01);
  EXPECT_EQ(score.color, 0.5);
  EXPECT_NE(AdherenceTable({score}).ToText().find("half"), std::string::npos);
  EXPECT_NE(AdherenceJson("m", {score}).find("\"images\": 2"), std::string::npos);
}

}  // namespace
}  // namespace dpipe::tools
