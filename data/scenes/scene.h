// Procedural scenes: one or two coloured shapes on a plain background, drawn from random numbers.
//
// Their captions are true by construction, and arithmetic can check them in an image
// (scene_recognizer.h). So "does the model draw what it is asked for" becomes a number.
//
// Positions and lengths are fractions of the image's side; x grows to the right, y downwards.
#ifndef DPIPE_DATA_SCENES_SCENE_H_
#define DPIPE_DATA_SCENES_SCENE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/images/image.h"

namespace dpipe {

enum class SceneShape { kCircle, kSquare, kTriangle, kStar, kCross };
enum class SceneColor { kRed, kGreen, kBlue, kYellow, kPurple, kOrange, kCyan, kWhite };
enum class SceneBackground { kBlack, kGray, kBrown };
inline constexpr int kNumSceneShapes = 5;
inline constexpr int kNumSceneColors = 8;
inline constexpr int kNumSceneBackgrounds = 3;

// The names in captions.
const std::string& NameOf(SceneShape shape);
const std::string& NameOf(SceneColor color);
const std::string& NameOf(SceneBackground background);

// Red, green, blue. Any two of these eleven are at least 80 apart (Euclidean).
std::array<uint8_t, 3> RgbOf(SceneColor color);
std::array<uint8_t, 3> RgbOf(SceneBackground background);

// Radii of an object's circumscribed circle: small ones are at most kMaxSmallRadius, large ones at
// least kMinLargeRadius. At 64 pixels, that is 7 to 9 and 12 to 14.5 pixels.
inline constexpr float kMinSmallRadius = 7.0f / 64;
inline constexpr float kMaxSmallRadius = 9.0f / 64;
inline constexpr float kMinLargeRadius = 12.0f / 64;
inline constexpr float kMaxLargeRadius = 14.5f / 64;

struct SceneObject {
  SceneShape shape = SceneShape::kCircle;
  SceneColor color = SceneColor::kRed;
  bool is_large = false;
  float center_x = 0.5f;
  float center_y = 0.5f;
  float radius = kMaxSmallRadius;
};

// One object, or two of different colours that do not touch. The first of two is left of the second
// or above it: their centres are at least twice as far apart along that axis as along the other.
struct Scene {
  SceneBackground background = SceneBackground::kBlack;
  std::vector<SceneObject> objects;
  bool is_vertical = false;  // the first of two objects is above the second, not left of it
};

// Returns scene `index` of the endless sequence of `seed`. 60 % of scenes have one object.
Scene DrawScene(uint64_t seed, uint64_t index);

// True if the point (x, y) is inside `shape` of radius 1 about the origin (y downwards).
bool IsInsideShape(SceneShape shape, float x, float y);

// Returns the share of pixel (px, py) that the object covers, by 4 x 4 samples, in an image `side`
// pixels wide.
float ShapeCoverage(const SceneObject& object, int side, int px, int py);

// Returns a square image of `side` pixels. ShapeCoverage anti-aliases the edges. `side` >= 8.
Image RenderScene(const Scene& scene, int side);

// Returns the objects' outlines, white on black and one pixel wide: pixels covered by at least
// half, with at least one of four neighbours that is not. `side` >= 8.
Image RenderSceneEdges(const Scene& scene, int side);

}  // namespace dpipe

#endif  // DPIPE_DATA_SCENES_SCENE_H_
