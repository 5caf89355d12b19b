#include "data/scenes/scene_recognizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "core/base/median.h"

namespace dpipe {
namespace {

using Color = std::array<float, 3>;

// The minimum distance of foreground from the background. Palette and backgrounds are at least 118
// apart, so this is past the middle of any object's edge. Noise of 12 per channel reaches it in one
// of 10^7 pixels.
constexpr float kForegroundDistance = 70;
constexpr float kMinAreaShare = 1.0f / 250;
constexpr float kMinShapeIou = 0.7f;
constexpr float kLargeThreshold = (kMaxSmallRadius + kMinLargeRadius) / 2;

struct Region {
  std::vector<int> pixels;  // y * width + x
};

Color ColorAt(const Image& image, int pixel) {
  const uint8_t* p = &image.pixels[static_cast<size_t>(pixel) * 3];
  return {static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2])};
}

template <typename A, typename B>
float Distance(const A& a, const B& b) {
  float sum = 0;
  for (int c = 0; c < 3; ++c) {
    sum += (static_cast<float>(a[c]) - b[c]) * (static_cast<float>(a[c]) - b[c]);
  }
  return std::sqrt(sum);
}

// Returns the median of each channel. `pixels` must not be empty.
Color MedianColor(const Image& image, const std::vector<int>& pixels) {
  Color median;
  std::vector<uint8_t> values(pixels.size());
  for (int c = 0; c < 3; ++c) {
    for (size_t i = 0; i < pixels.size(); ++i) {
      values[i] = image.pixels[static_cast<size_t>(pixels[i]) * 3 + c];
    }
    median[c] = MedianSample(values);
  }
  return median;
}

Color BackgroundColor(const Image& image) {
  std::vector<int> border;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      const bool inner = x > 0 && y > 0 && x < image.width - 1 && y < image.height - 1;
      if (!inner) border.push_back(y * image.width + x);
    }
  }
  return MedianColor(image, border);
}

// Returns the value of the enumeration with the nearest colour.
template <typename Enum>
Enum NearestColor(const Color& color, int count) {
  Enum best = static_cast<Enum>(0);
  for (int i = 1; i < count; ++i) {
    const Enum candidate = static_cast<Enum>(i);
    if (Distance(RgbOf(candidate), color) < Distance(RgbOf(best), color)) best = candidate;
  }
  return best;
}

// Calls `f` for the neighbours (up to four) of a pixel inside the image.
template <typename Function>
void ForEachNeighbor(const Image& image, int pixel, Function f) {
  const int x = pixel % image.width, y = pixel / image.width;
  if (x > 0) f(pixel - 1);
  if (x + 1 < image.width) f(pixel + 1);
  if (y > 0) f(pixel - image.width);
  if (y + 1 < image.height) f(pixel + image.width);
}

std::vector<Region> FindRegions(const Image& image, const std::vector<char>& foreground) {
  std::vector<Region> regions;
  std::vector<char> taken(foreground.size());
  for (size_t start = 0; start < foreground.size(); ++start) {
    if (!foreground[start] || taken[start]) continue;
    Region region;
    region.pixels.push_back(static_cast<int>(start));
    taken[start] = 1;
    for (size_t next = 0; next < region.pixels.size(); ++next) {
      ForEachNeighbor(image, region.pixels[next], [&](int neighbor) {
        if (!foreground[neighbor] || taken[neighbor]) return;
        taken[neighbor] = 1;
        region.pixels.push_back(neighbor);
      });
    }
    if (region.pixels.size() >= kMinAreaShare * foreground.size()) regions.push_back(region);
  }
  return regions;
}

// Returns the pixels away from the region's edge, whose colour is pure, or all if it is thin.
std::vector<int> InnerPixels(const Image& image, const Region& region,
                             const std::vector<char>& foreground) {
  std::vector<int> inner;
  for (const int pixel : region.pixels) {
    bool surrounded = true;
    ForEachNeighbor(image, pixel, [&](int neighbor) { surrounded &= foreground[neighbor] != 0; });
    if (surrounded) inner.push_back(pixel);
  }
  return inner.empty() ? region.pixels : inner;
}

// Returns the coverage of each pixel by the region, 0 to 1: the position of its colour between the
// background's and the object's. Zero outside the region and a seam of two pixels around it, which
// contains the rest of a soft edge.
std::vector<float> CoverageOf(const Image& image, const Region& region, const Color& background,
                              const Color& color) {
  std::vector<float> coverage(image.pixels.size() / 3, -1.0f);
  std::vector<int> pixels = region.pixels;
  for (const int pixel : pixels) coverage[pixel] = 0;
  for (int seam = 0; seam < 2; ++seam) {
    for (size_t i = 0, count = pixels.size(); i < count; ++i) {
      ForEachNeighbor(image, pixels[i], [&](int neighbor) {
        if (coverage[neighbor] >= 0) return;
        coverage[neighbor] = 0;
        pixels.push_back(neighbor);
      });
    }
  }
  const float scale = Distance(color, background) * Distance(color, background);
  for (const int pixel : pixels) {
    const Color value = ColorAt(image, pixel);
    float dot = 0;
    for (int c = 0; c < 3; ++c) dot += (value[c] - background[c]) * (color[c] - background[c]);
    coverage[pixel] = scale == 0 ? 0 : std::min(1.0f, std::max(0.0f, dot / scale));
  }
  for (float& value : coverage) value = std::max(0.0f, value);
  return coverage;
}

struct Moments {
  float area = 0;
  float center_x = 0;
  float center_y = 0;
};

Moments MomentsOf(const std::vector<float>& coverage, int width) {
  Moments moments;
  for (size_t i = 0; i < coverage.size(); ++i) {
    moments.area += coverage[i];
    moments.center_x += coverage[i] * (static_cast<float>(i % width) + 0.5f);
    moments.center_y += coverage[i] * (static_cast<float>(i / width) + 0.5f);
  }
  if (moments.area == 0) return moments;
  moments.center_x /= moments.area;
  moments.center_y /= moments.area;
  return moments;
}

// Returns the area and centroid of the shape of radius 1 about (0, 0), by 256 x 256 samples.
Moments UnitMoments(SceneShape shape) {
  static const auto& all = *[] {
    constexpr int kSamples = 256;
    auto* table = new std::array<Moments, kNumSceneShapes>;
    for (int s = 0; s < kNumSceneShapes; ++s) {
      SceneObject object;
      object.shape = static_cast<SceneShape>(s);
      object.center_x = object.center_y = object.radius = 0.5f;
      std::vector<float> coverage(kSamples * kSamples);
      for (int i = 0; i < kSamples * kSamples; ++i) {
        coverage[i] = ShapeCoverage(object, kSamples, i % kSamples, i / kSamples);
      }
      const Moments moments = MomentsOf(coverage, kSamples);
      constexpr float kUnit = kSamples / 2.0f;
      (*table)[s] = {moments.area / (kUnit * kUnit), moments.center_x / kUnit - 1,
                     moments.center_y / kUnit - 1};
    }
    return table;
  }();
  return all[static_cast<int>(shape)];
}

// Returns the object of this shape that has these moments, in an image `width` wide.
SceneObject PlaceShape(SceneShape shape, const Moments& moments, int width) {
  const Moments unit = UnitMoments(shape);
  const float radius = std::sqrt(moments.area / unit.area);
  SceneObject object;
  object.shape = shape;
  object.radius = radius / width;
  object.center_x = (moments.center_x - radius * unit.center_x) / width;
  object.center_y = (moments.center_y - radius * unit.center_y) / width;
  return object;
}

float OverlapOf(const SceneObject& object, const std::vector<float>& coverage, int width) {
  float both = 0, either = 0;
  for (size_t i = 0; i < coverage.size(); ++i) {
    const int x = static_cast<int>(i % width), y = static_cast<int>(i / width);
    const float dx = (x + 0.5f) / width - object.center_x;
    const float dy = (y + 0.5f) / width - object.center_y;
    const float reach = object.radius + 1.0f / width;
    const bool near = std::abs(dx) <= reach && std::abs(dy) <= reach;
    const float drawn = near ? ShapeCoverage(object, width, x, y) : 0.0f;
    both += std::min(drawn, coverage[i]);
    either += std::max(drawn, coverage[i]);
  }
  return either == 0 ? 0 : both / either;
}

RecognizedObject RecognizeObject(const Image& image, const Region& region, const Color& background,
                                 const std::vector<char>& foreground) {
  const Color color = MedianColor(image, InnerPixels(image, region, foreground));
  const std::vector<float> coverage = CoverageOf(image, region, background, color);
  const Moments moments = MomentsOf(coverage, image.width);
  RecognizedObject best;
  best.area_pixels = moments.area;
  for (int s = 0; s < kNumSceneShapes; ++s) {
    const SceneObject object = PlaceShape(static_cast<SceneShape>(s), moments, image.width);
    const float iou = OverlapOf(object, coverage, image.width);
    if (iou <= best.shape_iou) continue;
    best.object = object;
    best.shape_iou = iou;
  }
  best.object.color = NearestColor<SceneColor>(color, kNumSceneColors);
  best.object.is_large = best.object.radius >= kLargeThreshold;
  return best;
}

// Matches claim k with object paired[k].
SceneMatch MatchPaired(const RecognizedScene& scene, const CaptionClaim& claim,
                       const std::vector<int>& paired) {
  SceneMatch match;
  match.num_claimed = static_cast<int>(claim.objects.size());
  const int num_found = static_cast<int>(scene.objects.size());
  bool all_found = true;
  for (int k = 0; k < match.num_claimed; ++k) {
    const ObjectClaim& claimed = claim.objects[k];
    if (paired[k] >= num_found) {
      all_found = false;
      continue;
    }
    const RecognizedObject& found = scene.objects[paired[k]];
    const bool color = found.object.color == claimed.color;
    const bool shape = found.object.shape == claimed.shape && found.shape_iou >= kMinShapeIou;
    match.num_colors_right += color;
    match.num_shapes_right += shape;
    match.num_objects_right += color && shape;
    match.sizes_right &= claimed.is_large.value_or(found.object.is_large) == found.object.is_large;
  }
  match.sizes_right &= all_found;
  match.background_right = claim.background.value_or(scene.background) == scene.background;
  if (match.num_claimed == 2) {
    match.relation_right =
        all_found && RelationOf(scene.objects[paired[0]].object, scene.objects[paired[1]].object) ==
                         claim.relation;
  }
  return match;
}

}  // namespace

RecognizedScene RecognizeScene(const Image& image) {
  const Color background = BackgroundColor(image);
  std::vector<char> foreground(image.pixels.size() / 3);
  for (size_t i = 0; i < foreground.size(); ++i) {
    foreground[i] =
        Distance(ColorAt(image, static_cast<int>(i)), background) >= kForegroundDistance;
  }
  RecognizedScene scene;
  scene.background = NearestColor<SceneBackground>(background, kNumSceneBackgrounds);
  for (const Region& region : FindRegions(image, foreground)) {
    scene.objects.push_back(RecognizeObject(image, region, background, foreground));
  }
  std::stable_sort(scene.objects.begin(), scene.objects.end(),
                   [](const RecognizedObject& a, const RecognizedObject& b) {
                     return a.area_pixels > b.area_pixels;
                   });
  return scene;
}

SceneRelation RelationOf(const SceneObject& first, const SceneObject& second) {
  const float dx = second.center_x - first.center_x;
  const float dy = second.center_y - first.center_y;
  if (std::abs(dx) >= std::abs(dy))
    return dx > 0 ? SceneRelation::kLeftOf : SceneRelation::kRightOf;
  return dy > 0 ? SceneRelation::kAbove : SceneRelation::kBelow;
}

SceneMatch MatchClaim(const RecognizedScene& scene, const CaptionClaim& claim) {
  if (claim.objects.size() == 1) return MatchPaired(scene, claim, {0});
  const SceneMatch straight = MatchPaired(scene, claim, {0, 1});
  const SceneMatch crossed = MatchPaired(scene, claim, {1, 0});
  const auto score = [](const SceneMatch& match) {
    return std::make_tuple(match.num_objects_right, match.num_colors_right + match.num_shapes_right,
                           match.relation_right);
  };
  return score(crossed) > score(straight) ? crossed : straight;
}

absl::StatusOr<SceneMatch> MatchCaption(const Image& image, const std::string& caption) {
  DPIPE_ASSIGN_OR_RETURN(const CaptionClaim claim, ParseCaption(caption));
  return MatchClaim(RecognizeScene(image), claim);
}

}  // namespace dpipe
