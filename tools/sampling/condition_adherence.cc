#include "tools/sampling/condition_adherence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/base/median.h"
#include "data/scenes/scene_recognizer.h"
#include "nlohmann/json.hpp"

namespace dpipe::tools {
namespace {

// As in data/scene_recognizer: past the middle of any object's edge.
constexpr double kForegroundDistance = 70;

// One flag per pixel, in row-major order.
using Mask = std::vector<bool>;

std::array<double, 3> BackgroundOf(const Image& image) {
  std::array<double, 3> background;
  for (int c = 0; c < 3; ++c) {
    std::vector<uint8_t> border;
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width; ++x) {
        const bool inner = x > 0 && y > 0 && x < image.width - 1 && y < image.height - 1;
        if (!inner) border.push_back(image.At(x, y)[c]);
      }
    }
    background[c] = MedianSample(std::move(border));
  }
  return background;
}

Mask ForegroundOf(const Image& image) {
  const std::array<double, 3> background = BackgroundOf(image);
  Mask mask;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      double square = 0;
      for (int c = 0; c < 3; ++c) {
        square += std::pow(image.At(x, y)[c] - background[c], 2);
      }
      mask.push_back(std::sqrt(square) >= kForegroundDistance);
    }
  }
  return mask;
}

Mask CoveredBy(const Scene& scene, int side) {
  Mask mask(static_cast<size_t>(side) * side, false);
  for (const SceneObject& object : scene.objects) {
    for (int i = 0; i < side * side; ++i) {
      if (ShapeCoverage(object, side, i % side, i / side) >= 0.5f) mask[i] = true;
    }
  }
  return mask;
}

// Returns the set pixels with an unset 4-neighbour. Pixels outside the image count as unset.
Mask OutlineOf(const Mask& mask, int side) {
  auto is_set = [&](int x, int y) {
    return x >= 0 && y >= 0 && x < side && y < side && mask[y * side + x];
  };
  Mask outline(mask.size(), false);
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const bool inside =
          is_set(x - 1, y) && is_set(x + 1, y) && is_set(x, y - 1) && is_set(x, y + 1);
      outline[y * side + x] = is_set(x, y) && !inside;
    }
  }
  return outline;
}

// Returns the share of a's pixels that are, or have among their eight neighbours, a pixel of b.
double ShareNear(const Mask& a, const Mask& b, int side) {
  int count = 0, near = 0;
  for (int i = 0; i < side * side; ++i) {
    if (!a[i]) continue;
    ++count;
    bool found = false;
    for (int y = std::max(0, i / side - 1); y <= std::min(side - 1, i / side + 1); ++y) {
      for (int x = std::max(0, i % side - 1); x <= std::min(side - 1, i % side + 1); ++x) {
        found = found || b[y * side + x];
      }
    }
    near += found;
  }
  return count == 0 ? 0 : static_cast<double>(near) / count;
}

double Overlap(const Mask& a, const Mask& b) {
  int both = 0, either = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    both += a[i] && b[i];
    either += a[i] || b[i];
  }
  return either == 0 ? 0 : static_cast<double>(both) / either;
}

}  // namespace

Adherence MeasureAdherence(const Image& image, const Scene& scene) {
  DPIPE_CHECK(image.width == image.height && scene.objects.size() == 1);
  const int side = image.width;
  const Mask drawn = ForegroundOf(image), wanted = CoveredBy(scene, side);
  const Mask drawn_outline = OutlineOf(drawn, side), wanted_outline = OutlineOf(wanted, side);
  Adherence adherence;
  adherence.precision = ShareNear(drawn_outline, wanted_outline, side);
  adherence.recall = ShareNear(wanted_outline, drawn_outline, side);
  const double sum = adherence.precision + adherence.recall;
  if (sum > 0) adherence.f1 = 2 * adherence.precision * adherence.recall / sum;
  adherence.overlap = Overlap(drawn, wanted);
  adherence.distance_pixels = side / 2.0;
  const RecognizedScene seen = RecognizeScene(image);
  if (seen.objects.empty()) return adherence;
  const SceneObject& object = seen.objects[0].object;
  const SceneObject& expected = scene.objects[0];
  adherence.shape_is_right = object.shape == expected.shape;
  adherence.color_is_right = object.color == expected.color;
  adherence.distance_pixels =
      side * std::hypot(object.center_x - expected.center_x, object.center_y - expected.center_y);
  return adherence;
}

AdherenceScore ScoreAdherence(const std::string& subject, const std::vector<Image>& images,
                              const std::vector<Scene>& scenes) {
  DPIPE_CHECK_EQ(images.size(), scenes.size());
  AdherenceScore score;
  score.subject = subject;
  score.num_images = static_cast<int>(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    const Adherence one = MeasureAdherence(images[i], scenes[i]);
    score.f1 += one.f1 / images.size();
    score.overlap += one.overlap / images.size();
    score.shape += (one.shape_is_right ? 1.0 : 0.0) / images.size();
    score.color += (one.color_is_right ? 1.0 : 0.0) / images.size();
    score.distance_pixels += one.distance_pixels / images.size();
  }
  return score;
}

report::Table AdherenceTable(const std::vector<AdherenceScore>& scores) {
  report::Table table(
      {"images of", "images", "outline F1", "overlap", "shape", "colour", "distance"});
  auto percent = [](double share) { return absl::StrFormat("%.0f %%", 100 * share); };
  for (const AdherenceScore& score : scores) {
    table.AddRow({score.subject, absl::StrFormat("%d", score.num_images), percent(score.f1),
                  percent(score.overlap), percent(score.shape), percent(score.color),
                  absl::StrFormat("%.1f px", score.distance_pixels)});
  }
  return table;
}

std::string AdherenceJson(const std::string& model, const std::vector<AdherenceScore>& scores) {
  nlohmann::ordered_json json;
  json["format"] = "dpipe.following";
  json["model"] = model;
  json["scores"] = nlohmann::ordered_json::array();
  for (const AdherenceScore& score : scores) {
    json["scores"].push_back({{"subject", score.subject},
                              {"images", score.num_images},
                              {"outline_f1", score.f1},
                              {"overlap", score.overlap},
                              {"shape", score.shape},
                              {"color", score.color},
                              {"distance_pixels", score.distance_pixels}});
  }
  return json.dump(2) + "\n";
}

}  // namespace dpipe::tools
