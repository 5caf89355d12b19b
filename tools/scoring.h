// Whether images show what their captions say, as shares of many.
//
// Captions are those of scenes of the built-in data set's kind from another seed than training's,
// and data/scene_recognizer is the judge: colours and shapes are compared object by object.
#ifndef DPIPE_TOOLS_SCORING_H_
#define DPIPE_TOOLS_SCORING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/report/table.h"
#include "data/image.h"
#include "data/scene.h"

namespace dpipe::tools {

struct ScorePrompt {
  std::string caption;
  Scene scene;  // one of those that it is true of
};

// The first `count` scenes of the sequence `seed` with that many objects, 1 or 2.
std::vector<ScorePrompt> DrawScorePrompts(uint64_t seed, int num_objects, int count);

struct Score {
  std::string subject;  // whose images: "out/train"
  int num_objects = 0;  // of each image
  int num_images = 0;
  // Images with every object's colour right; every shape; both of every object; objects and their
  // relation (equal to `both` for one object); those and sizes and background where claimed.
  int colors = 0, shapes = 0, both = 0, relations = 0, all = 0;

  double Share(int count) const { return num_images == 0 ? 0 : double{1} * count / num_images; }
};

// image[i] is judged by prompts[i]. InvalidArgument for captions that cannot be parsed.
absl::StatusOr<Score> ScoreImages(const std::string& subject,
                                  const std::vector<ScorePrompt>& prompts,
                                  const std::vector<Image>& images);

// One row a score, shares in per cent.
report::Table ScoreTable(const std::vector<Score>& scores);

// {"format": "dpipe.scores", "model": ..., "scores": [{"subject": ..., "objects": 1, "images": 64,
// "color": 0.9, "shape": ..., "both": ..., "relation": ..., "all": ...}]}
std::string ScoresJson(const std::string& model, const std::vector<Score>& scores);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_SCORING_H_
