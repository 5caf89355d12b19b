// Scores how many images show what their captions say.
//
// Captions describe scenes of the built-in data set's kind, drawn with another seed than
// training's. data/scene_recognizer is the judge: colours and shapes are compared object by object.
#ifndef DPIPE_TOOLS_SAMPLING_SCORING_H_
#define DPIPE_TOOLS_SAMPLING_SCORING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/report/table.h"
#include "data/images/image.h"
#include "data/scenes/scene.h"

namespace dpipe::tools {

struct ScorePrompt {
  std::string caption;
  Scene scene;  // a scene that the caption is true of
};

// Returns the first `count` scenes of sequence `seed` with `num_objects` objects, 1 or 2.
std::vector<ScorePrompt> DrawScorePrompts(uint64_t seed, int num_objects, int count);

struct Score {
  std::string subject;  // source of the images: "out/train"
  int num_objects = 0;  // per image
  int num_images = 0;
  // Numbers of images that are right in
  //   colors     every object's colour
  //   shapes     every object's shape
  //   both       every object's colour and shape
  //   relations  `both`, and the objects' relation; equal to `both` for one object
  //   all        `relations`, and sizes and background if the caption names them
  int colors = 0, shapes = 0, both = 0, relations = 0, all = 0;

  double Share(int count) const { return num_images == 0 ? 0 : double{1} * count / num_images; }
};

// Judges image[i] by prompts[i]. Returns InvalidArgument if a caption cannot be parsed.
absl::StatusOr<Score> ScoreImages(const std::string& subject,
                                  const std::vector<ScorePrompt>& prompts,
                                  const std::vector<Image>& images);

// Returns a table with one row per score; shares are in per cent.
report::Table ScoreTable(const std::vector<Score>& scores);

// Returns the scores as JSON:
// {"format": "dpipe.scores", "model": ..., "scores": [{"subject": ..., "objects": 1, "images": 64,
// "color": 0.9, "shape": ..., "both": ..., "relation": ..., "all": ...}]}
std::string ScoresJson(const std::string& model, const std::vector<Score>& scores);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_SAMPLING_SCORING_H_
