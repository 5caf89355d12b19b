#include "tools/following.h"

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

TEST(FollowingTest, TheSceneItselfFollowsPerfectly) {
  int count = 0;
  for (int index = 0; count < 20; ++index) {
    const Scene scene = DrawScene(/*seed=*/5, index);
    if (scene.objects.size() != 1) continue;
    ++count;
    const Following following = MeasureFollowing(RenderScene(scene, 64), scene);
    EXPECT_GT(following.f1, 0.99) << index;
    EXPECT_GT(following.overlap, 0.85) << index;  // small objects lose pixels at the edge
    EXPECT_TRUE(following.shape_is_right && following.color_is_right) << index;
    EXPECT_LT(following.distance_pixels, 1) << index;
  }
}

TEST(FollowingTest, AMovedObjectDoesNot) {
  const Scene scene = OneObject(SceneShape::kSquare, 0.3f, 0.3f, 0.2f);
  const Image moved = RenderScene(OneObject(SceneShape::kSquare, 0.7f, 0.7f, 0.2f), 64);
  const Following following = MeasureFollowing(moved, scene);
  EXPECT_LT(following.f1, 0.1);
  EXPECT_LT(following.overlap, 0.05);
  EXPECT_TRUE(following.shape_is_right);
  EXPECT_NEAR(following.distance_pixels, 64 * 0.4 * std::sqrt(2.0), 1);
}

// A square of 20 pixels in one of 40: a quarter of the area, and outlines far apart.
TEST(FollowingTest, ASmallerObjectOverlapsByItsArea) {
  const float half_diagonal = std::sqrt(2.0f) / 2;
  const Scene scene = OneObject(SceneShape::kSquare, 0.5f, 0.5f, 40.0f / 64 * half_diagonal);
  const Image small =
      RenderScene(OneObject(SceneShape::kSquare, 0.5f, 0.5f, 20.0f / 64 * half_diagonal), 64);
  const Following following = MeasureFollowing(small, scene);
  EXPECT_NEAR(following.overlap, 0.25, 0.03);
  EXPECT_EQ(following.f1, 0);
}

TEST(FollowingTest, NothingDrawnScoresNothing) {
  const Scene scene = OneObject(SceneShape::kCircle, 0.5f, 0.5f, 0.2f);
  const FollowingScore score = ScoreFollowing("nothing", {Image(64, 64)}, {scene});
  EXPECT_EQ(score.f1, 0);
  EXPECT_EQ(score.overlap, 0);
  EXPECT_EQ(score.shape, 0);
  EXPECT_EQ(score.distance_pixels, 32);
}

TEST(FollowingTest, MeansAreOverImages) {
  const Scene scene = OneObject(SceneShape::kCircle, 0.5f, 0.5f, 0.2f);
  const FollowingScore score =
      ScoreFollowing("half", {RenderScene(scene, 64), Image(64, 64)}, {scene, scene});
  EXPECT_NEAR(score.f1, 0.5, 0.01);
  EXPECT_EQ(score.color, 0.5);
  EXPECT_NE(FollowingTable({score}).ToText().find("half"), std::string::npos);
  EXPECT_NE(FollowingJson("m", {score}).find("\"images\": 2"), std::string::npos);
}

}  // namespace
}  // namespace dpipe::tools
