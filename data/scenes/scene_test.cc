#include "data/scenes/scene.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

float Distance(std::array<uint8_t, 3> a, std::array<uint8_t, 3> b) {
  float sum = 0;
  for (int c = 0; c < 3; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return std::sqrt(sum);
}

TEST(SceneTest, AllColorsAreFarApart) {
  std::vector<std::array<uint8_t, 3>> colors;
  for (int i = 0; i < kNumSceneColors; ++i) colors.push_back(RgbOf(static_cast<SceneColor>(i)));
  for (int i = 0; i < kNumSceneBackgrounds; ++i) {
    colors.push_back(RgbOf(static_cast<SceneBackground>(i)));
  }
  for (size_t i = 0; i < colors.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_GE(Distance(colors[i], colors[j]), 80) << i << " " << j;
  }
}

TEST(SceneTest, ObjectsStayInsideAndApartAndInOrder) {
  int num_single = 0;
  constexpr int kCount = 5000;
  for (int i = 0; i < kCount; ++i) {
    const Scene scene = DrawScene(/*seed=*/3, i);
    num_single += scene.objects.size() == 1;
    for (const SceneObject& object : scene.objects) {
      EXPECT_GE(std::min(object.center_x, object.center_y) - object.radius, 0.0f);
      EXPECT_LE(std::max(object.center_x, object.center_y) + object.radius, 1.0f);
      if (object.is_large) {
        EXPECT_GE(object.radius, kMinLargeRadius);
      } else {
        EXPECT_LE(object.radius, kMaxSmallRadius);
      }
    }
    if (scene.objects.size() == 1) continue;
    ASSERT_EQ(scene.objects.size(), 2u);
    const SceneObject &a = scene.objects[0], &b = scene.objects[1];
    EXPECT_NE(a.color, b.color);
    const float dx = b.center_x - a.center_x, dy = b.center_y - a.center_y;
    EXPECT_GT(std::hypot(dx, dy), a.radius + b.radius + 2.0f / 64);
    const float main = scene.is_vertical ? dy : dx, cross = scene.is_vertical ? dx : dy;
    EXPECT_GT(main, 0);
    EXPECT_LE(std::abs(cross), 0.5f * main + 1e-5f) << "scene " << i;
  }
  EXPECT_NEAR(num_single, 0.6 * kCount, 150);  // 4.3 standard deviations
}

TEST(SceneTest, EveryShapeColorAndBackgroundOccurs) {
  std::map<SceneShape, int> shapes;
  std::map<SceneColor, int> colors;
  std::map<SceneBackground, int> backgrounds;
  for (int i = 0; i < 800; ++i) {
    const Scene scene = DrawScene(/*seed=*/4, i);
    ++backgrounds[scene.background];
    for (const SceneObject& object : scene.objects) ++shapes[object.shape], ++colors[object.color];
  }
  EXPECT_EQ(shapes.size(), kNumSceneShapes);
  EXPECT_EQ(colors.size(), kNumSceneColors);
  EXPECT_EQ(backgrounds.size(), kNumSceneBackgrounds);
  for (const auto& [color, count] : colors) EXPECT_GT(count, 90) << NameOf(color);
}

TEST(SceneTest, SameSeedAndIndexGiveTheSamePixels) {
  EXPECT_EQ(RenderScene(DrawScene(7, 12), 64).pixels, RenderScene(DrawScene(7, 12), 64).pixels);
  EXPECT_NE(RenderScene(DrawScene(7, 12), 64).pixels, RenderScene(DrawScene(7, 13), 64).pixels);
  EXPECT_NE(RenderScene(DrawScene(7, 12), 64).pixels, RenderScene(DrawScene(8, 12), 64).pixels);
}

// Compares the painted area, the sum of coverage, with the shape's geometric area.
TEST(SceneTest, ShapesHaveTheirAreas) {
  const float star = 5 * std::sin(3.14159265f / 5) * 0.45f;  // 10 triangles, (1/2) 1 0.45 sin 36
  const std::map<SceneShape, float> areas = {{SceneShape::kCircle, 3.14159265f},
                                             {SceneShape::kSquare, 1.7f * 1.7f},
                                             {SceneShape::kTriangle, 0.5f * 2.0f * 1.8f},
                                             {SceneShape::kStar, star},
                                             {SceneShape::kCross, 4 * 0.66f - 0.66f * 0.66f}};
  for (const auto& [shape, area] : areas) {
    Scene scene;
    SceneObject object;
    object.shape = shape;
    object.color = SceneColor::kWhite;
    object.radius = 0.25f;
    scene.objects = {object};
    const Image image = RenderScene(scene, 128);
    double covered = 0;
    for (int y = 0; y < 128; ++y) {
      for (int x = 0; x < 128; ++x) covered += (image.At(x, y)[0] - 12) / 238.0;
    }
    EXPECT_NEAR(covered, area * 32 * 32, 0.02 * area * 32 * 32) << NameOf(shape);
  }
}

TEST(SceneTest, EdgesAreAntiAliased) {
  Scene scene;
  SceneObject object;
  object.color = SceneColor::kWhite;
  scene.objects = {object};
  const Image image = RenderScene(scene, 64);
  int num_between = 0;
  for (int i = 0; i < 64 * 64; ++i)
    num_between += image.pixels[i * 3] > 20 && image.pixels[i * 3] < 240;
  EXPECT_GT(num_between, 20);
  EXPECT_LT(num_between, 120);
  EXPECT_EQ(image.At(32, 32)[0], 250);
  EXPECT_EQ(image.At(0, 0)[0], 12);
}

// An outline is closed and thin. It separates the inside from the outside (by four neighbours), and
// the inside without the outline is the area that the object covers.
TEST(SceneTest, OutlinesSurroundTheObjects) {
  for (int index = 0; index < 50; ++index) {
    const Scene scene = DrawScene(3, index);
    const Image edges = RenderSceneEdges(scene, 64);
    int num_outline = 0;
    for (int y = 0; y < 64; ++y) {
      for (int x = 0; x < 64; ++x) {
        bool inside = false;
        for (const SceneObject& object : scene.objects) {
          inside |= ShapeCoverage(object, 64, x, y) >= 0.5f;
        }
        const bool is_outline = edges.At(x, y)[0] == 255;
        num_outline += is_outline;
        EXPECT_EQ(edges.At(x, y)[0], edges.At(x, y)[2]);
        if (is_outline) {
          EXPECT_TRUE(inside) << "scene " << index << " (" << x << ", " << y << ")";
        }
        if (!inside || is_outline) continue;
        for (const auto& [dx, dy] : {std::pair(1, 0), {-1, 0}, {0, 1}, {0, -1}}) {
          bool neighbour = false;
          for (const SceneObject& object : scene.objects) {
            neighbour |= ShapeCoverage(object, 64, x + dx, y + dy) >= 0.5f;
          }
          EXPECT_TRUE(neighbour) << "scene " << index << " (" << x << ", " << y << ")";
        }
      }
    }
    EXPECT_GE(num_outline, 30);
    EXPECT_LE(num_outline, 400);
  }
}

}  // namespace
}  // namespace dpipe
