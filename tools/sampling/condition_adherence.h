// Measures how closely drawn scenes follow the outlines that conditioned them.
#ifndef DPIPE_TOOLS_SAMPLING_CONDITION_ADHERENCE_H_
#define DPIPE_TOOLS_SAMPLING_CONDITION_ADHERENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/report/table.h"
#include "data/images/image.h"
#include "data/scenes/scene.h"

namespace dpipe::tools {

// Measurements of one image. Its foreground is every pixel that differs from the background (the
// median of the image's border). Its outlines are the foreground pixels next to others. Shares are
// in [0, 1].
struct Adherence {
  //   precision  share of the image's outline pixels at most one pixel away from the condition's
  //   recall     share of the condition's outline pixels at most one pixel away from the image's
  //   f1         their harmonic mean
  // A share of nothing is 0.
  double precision = 0, recall = 0, f1 = 0;
  // Intersection over union of the foreground and the scene's objects.
  double overlap = 0;
  bool shape_is_right = false;  // as data/scene_recognizer names the largest region
  bool color_is_right = false;
  // Distance between the centres of the largest region and the scene's object; half the image's
  // side if there is no region.
  double distance_pixels = 0;
};

// Measures `image`, which is square, against `scene`, which has one object.
Adherence MeasureAdherence(const Image& image, const Scene& scene);

// Means over images.
struct AdherenceScore {
  std::string subject;  // the source of the images
  int num_images = 0;
  double f1 = 0, overlap = 0, shape = 0, color = 0, distance_pixels = 0;
};

// Averages over the images; image[i] was drawn from the outlines of scenes[i].
AdherenceScore ScoreAdherence(const std::string& subject, const std::vector<Image>& images,
                              const std::vector<Scene>& scenes);

// Returns a table with one row per score.
report::Table AdherenceTable(const std::vector<AdherenceScore>& scores);

// Returns the scores as JSON:
// {"format": "dpipe.following", "model": ..., "scores": [{"subject": ..., "images": 64,
// "outline_f1": ..., "overlap": ..., "shape": ..., "color": ..., "distance_pixels": ...}]}
std::string AdherenceJson(const std::string& model, const std::vector<AdherenceScore>& scores);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_SAMPLING_CONDITION_ADHERENCE_H_
