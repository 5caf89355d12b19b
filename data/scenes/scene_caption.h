// Captions of scenes: written from a scene, and parsed into the claims they make.
//
// Grammar (words in brackets are optional):
//   caption    = object [relation object] ["on a" background "background"]
//   object     = ("a" | "an") ["small" | "large"] colour shape
//   relation   = ["to the"] ("left of" | "right of") | "above" | "below"
// for example "a large red circle left of a small blue square on a gray background".
#ifndef DPIPE_DATA_SCENES_SCENE_CAPTION_H_
#define DPIPE_DATA_SCENES_SCENE_CAPTION_H_

#include <optional>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/base/status.h"
#include "data/scenes/scene.h"

namespace dpipe {

enum class SceneRelation { kLeftOf, kRightOf, kAbove, kBelow };

struct ObjectClaim {
  SceneColor color = SceneColor::kRed;
  SceneShape shape = SceneShape::kCircle;
  std::optional<bool> is_large;
};

struct CaptionClaim {
  std::vector<ObjectClaim> objects;  // one or two
  // The position of the first of two objects relative to the second. Meaningless for one object.
  SceneRelation relation = SceneRelation::kLeftOf;
  std::optional<SceneBackground> background;
};

// Returns a true caption of `scene`. The mentioned properties (sizes: 60 %, background: 50 %), the
// order of the objects and the wording are drawn from `random`.
std::string WriteCaption(const Scene& scene, RandomStream& random);

// Returns the caption of scene `index` of `seed` in the built-in data set.
std::string CaptionOfScene(const Scene& scene, uint64_t seed, uint64_t index);

// Returns InvalidArgument, quoting the first unexpected word, for text outside the grammar.
absl::StatusOr<CaptionClaim> ParseCaption(const std::string& caption);

}  // namespace dpipe

#endif  // DPIPE_DATA_SCENES_SCENE_CAPTION_H_
