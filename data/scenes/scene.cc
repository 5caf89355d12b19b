#include "data/scenes/scene.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/philox.h"

namespace dpipe {
namespace {

constexpr float kMargin = 1.0f / 64;    // between an object and the image's border
constexpr float kGap = 3.0f / 64;       // minimum between two objects
constexpr float kAxisDominance = 0.5f;  // |off-axis distance| <= this x |on-axis distance|
constexpr float kOneObjectShare = 0.6f;
constexpr int kSamplesPerPixelSide = 4;

float Between(RandomStream& random, float low, float high) {
  return low + (high - low) * random.NextUniform();
}

SceneObject DrawObject(RandomStream& random) {
  SceneObject object;
  object.shape = static_cast<SceneShape>(random.NextBelow(kNumSceneShapes));
  object.color = static_cast<SceneColor>(random.NextBelow(kNumSceneColors));
  object.is_large = random.NextBelow(2) == 1;
  object.radius = object.is_large ? Between(random, kMinLargeRadius, kMaxLargeRadius)
                                  : Between(random, kMinSmallRadius, kMaxSmallRadius);
  return object;
}

// The range of a centre that keeps the object inside the image.
float MinCenter(const SceneObject& object) { return object.radius + kMargin; }
float MaxCenter(const SceneObject& object) { return 1 - object.radius - kMargin; }

// Places the first object before the second along the main axis. Two large ones fit: 2 x (2 x 14.5)
// + 3 + 2 x 1 = 63 of 64 pixels.
void PlacePair(RandomStream& random, bool is_vertical, SceneObject& first, SceneObject& second) {
  const float distance = first.radius + second.radius + kGap;
  const float first_main = Between(random, MinCenter(first), MaxCenter(second) - distance);
  const float second_main = Between(random, first_main + distance, MaxCenter(second));
  const float reach = kAxisDominance * (second_main - first_main);
  const float first_cross = Between(random, MinCenter(first), MaxCenter(first));
  const float second_cross =
      Between(random, std::max(MinCenter(second), std::min(MaxCenter(second), first_cross - reach)),
              std::min(MaxCenter(second), std::max(MinCenter(second), first_cross + reach)));
  first.center_x = is_vertical ? first_cross : first_main;
  first.center_y = is_vertical ? first_main : first_cross;
  second.center_x = is_vertical ? second_cross : second_main;
  second.center_y = is_vertical ? second_main : second_cross;
}

struct Point {
  float x;
  float y;
};

// A five-pointed star, point upwards, as a polygon with outer radius 1 and inner radius 0.45. The
// latter is larger than a pentagram's 0.38, so that a small star keeps its notches.
const std::array<Point, 10>& StarCorners() {
  static const std::array<Point, 10> corners = [] {
    constexpr float kInnerRadius = 0.45f;
    constexpr float kPi = 3.14159265358979f;
    std::array<Point, 10> points;
    for (int i = 0; i < 10; ++i) {
      const float radius = i % 2 == 0 ? 1.0f : kInnerRadius;
      points[i] = {radius * std::sin(kPi * i / 5), -radius * std::cos(kPi * i / 5)};
    }
    return points;
  }();
  return corners;
}

bool IsInsideStar(float x, float y) {
  const std::array<Point, 10>& corners = StarCorners();
  bool inside = false;
  for (int i = 0, j = 9; i < 10; j = i++) {
    const Point a = corners[i], b = corners[j];
    if ((a.y > y) != (b.y > y) && x < (b.x - a.x) * (y - a.y) / (b.y - a.y) + a.x) inside = !inside;
  }
  return inside;
}

void PaintObject(const SceneObject& object, Image& image) {
  const int side = image.width;
  const auto rgb = RgbOf(object.color);
  const auto clamp = [side](float v) {
    return std::min(side - 1, std::max(0, static_cast<int>(std::floor(v * side))));
  };
  for (int y = clamp(object.center_y - object.radius); y <= clamp(object.center_y + object.radius);
       ++y) {
    for (int x = clamp(object.center_x - object.radius);
         x <= clamp(object.center_x + object.radius); ++x) {
      const float coverage = ShapeCoverage(object, side, x, y);
      uint8_t* pixel = image.At(x, y);
      for (int c = 0; c < 3; ++c) {
        pixel[c] = static_cast<uint8_t>(std::lround(pixel[c] + coverage * (rgb[c] - pixel[c])));
      }
    }
  }
}

void PaintOutline(const SceneObject& object, Image& image) {
  const int side = image.width;
  const auto covers = [&](int x, int y) {
    return x >= 0 && y >= 0 && x < side && y < side && ShapeCoverage(object, side, x, y) >= 0.5f;
  };
  const int radius = static_cast<int>(object.radius * side) + 2;
  const int center_x = static_cast<int>(object.center_x * side);
  const int center_y = static_cast<int>(object.center_y * side);
  for (int y = std::max(0, center_y - radius); y <= std::min(side - 1, center_y + radius); ++y) {
    for (int x = std::max(0, center_x - radius); x <= std::min(side - 1, center_x + radius); ++x) {
      if (!covers(x, y)) continue;
      if (covers(x - 1, y) && covers(x + 1, y) && covers(x, y - 1) && covers(x, y + 1)) continue;
      std::fill_n(image.At(x, y), 3, uint8_t{255});
    }
  }
}

}  // namespace

const std::string& NameOf(SceneShape shape) {
  static const auto& names = *new std::array<std::string, kNumSceneShapes>{
      "circle", "square", "triangle", "star", "cross"};
  return names[static_cast<int>(shape)];
}

const std::string& NameOf(SceneColor color) {
  static const auto& names = *new std::array<std::string, kNumSceneColors>{
      "red", "green", "blue", "yellow", "purple", "orange", "cyan", "white"};
  return names[static_cast<int>(color)];
}

const std::string& NameOf(SceneBackground background) {
  static const auto& names =
      *new std::array<std::string, kNumSceneBackgrounds>{"black", "gray", "brown"};
  return names[static_cast<int>(background)];
}

std::array<uint8_t, 3> RgbOf(SceneColor color) {
  static constexpr std::array<uint8_t, 3> kRgb[kNumSceneColors] = {
      {220, 30, 30},  {30, 165, 50},  {40, 70, 230},  {245, 225, 40},
      {165, 40, 195}, {250, 130, 20}, {50, 210, 225}, {250, 250, 250}};
  return kRgb[static_cast<int>(color)];
}

std::array<uint8_t, 3> RgbOf(SceneBackground background) {
  static constexpr std::array<uint8_t, 3> kRgb[kNumSceneBackgrounds] = {
      {12, 12, 12}, {115, 115, 115}, {90, 55, 25}};
  return kRgb[static_cast<int>(background)];
}

Scene DrawScene(uint64_t seed, uint64_t index) {
  RandomStream random(seed, index, /*sample=*/0, RandomPurpose::kDataset);
  Scene scene;
  scene.background = static_cast<SceneBackground>(random.NextBelow(kNumSceneBackgrounds));
  SceneObject first = DrawObject(random);
  if (random.NextUniform() < kOneObjectShare) {
    first.center_x = Between(random, MinCenter(first), MaxCenter(first));
    first.center_y = Between(random, MinCenter(first), MaxCenter(first));
    scene.objects = {first};
    return scene;
  }
  SceneObject second = DrawObject(random);
  // One of the seven other colours, each equally likely.
  second.color = static_cast<SceneColor>(
      (static_cast<int>(first.color) + 1 + random.NextBelow(kNumSceneColors - 1)) %
      kNumSceneColors);
  scene.is_vertical = random.NextBelow(2) == 1;
  PlacePair(random, scene.is_vertical, first, second);
  scene.objects = {first, second};
  return scene;
}

bool IsInsideShape(SceneShape shape, float x, float y) {
  switch (shape) {
    case SceneShape::kCircle:
      return x * x + y * y <= 1;
    case SceneShape::kSquare:
      return std::max(std::abs(x), std::abs(y)) <= 0.85f;
    case SceneShape::kTriangle:  // base 2 wide at y = 0.85, apex at y = -0.95
      return y <= 0.85f && std::abs(x) <= (y + 0.95f) / 1.8f;
    case SceneShape::kStar:
      return IsInsideStar(x, y);
    case SceneShape::kCross:
      return std::min(std::abs(x), std::abs(y)) <= 0.33f &&
             std::max(std::abs(x), std::abs(y)) <= 1.0f;
  }
  return false;
}

float ShapeCoverage(const SceneObject& object, int side, int px, int py) {
  int covered = 0;
  for (int sy = 0; sy < kSamplesPerPixelSide; ++sy) {
    for (int sx = 0; sx < kSamplesPerPixelSide; ++sx) {
      const float x = (px + (sx + 0.5f) / kSamplesPerPixelSide) / side;
      const float y = (py + (sy + 0.5f) / kSamplesPerPixelSide) / side;
      covered += IsInsideShape(object.shape, (x - object.center_x) / object.radius,
                               (y - object.center_y) / object.radius);
    }
  }
  return static_cast<float>(covered) / (kSamplesPerPixelSide * kSamplesPerPixelSide);
}

Image RenderScene(const Scene& scene, int side) {
  DPIPE_CHECK_GE(side, 8);
  Image image(side, side);
  const auto rgb = RgbOf(scene.background);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = rgb[i % 3];
  for (const SceneObject& object : scene.objects) PaintObject(object, image);
  return image;
}

Image RenderSceneEdges(const Scene& scene, int side) {
  DPIPE_CHECK_GE(side, 8);
  Image image(side, side);
  for (const SceneObject& object : scene.objects) PaintOutline(object, image);
  return image;
}

}  // namespace dpipe
