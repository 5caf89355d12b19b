// Whether drawn scenes follow the outlines that they were drawn from, by numbers.
#ifndef DPIPE_TOOLS_FOLLOWING_H_
#define DPIPE_TOOLS_FOLLOWING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/report/table.h"
#include "data/image.h"
#include "data/scene.h"

namespace dpipe::tools {

// Of one image. What differs from the image's background (the median of its border) is its
// foreground; foreground pixels beside others are its outlines. All in [0, 1].
struct Following {
  // Shares of the image's outline pixels that are at most one pixel away from one of the
  // condition's, of the condition's that are that near to one of the image's, and both shares'
  // harmonic mean. 0 where there is nothing to take a share of.
  double precision = 0, recall = 0, f1 = 0;
  // Overlap of the foreground with the scene's objects: intersection over union.
  double overlap = 0;
  bool shape_is_right = false;  // as data/scene_recognizer names the largest region
  bool color_is_right = false;
  // From the centre of the largest region to that of the scene's object; half the image's side
  // where there is no region.
  double distance_pixels = 0;
};

// `scene` has one object. The image is square.
Following MeasureFollowing(const Image& image, const Scene& scene);

// Means over images.
struct FollowingScore {
  std::string subject;  // whose images
  int num_images = 0;
  double f1 = 0, overlap = 0, shape = 0, color = 0, distance_pixels = 0;
};

// image[i] was drawn from the outlines of scenes[i].
FollowingScore ScoreFollowing(const std::string& subject, const std::vector<Image>& images,
                              const std::vector<Scene>& scenes);

// One row a score.
report::Table FollowingTable(const std::vector<FollowingScore>& scores);

// {"format": "dpipe.following", "model": ..., "scores": [{"subject": ..., "images": 64,
// "outline_f1": ..., "overlap": ..., "shape": ..., "color": ..., "distance_pixels": ...}]}
std::string FollowingJson(const std::string& model, const std::vector<FollowingScore>& scores);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_FOLLOWING_H_
