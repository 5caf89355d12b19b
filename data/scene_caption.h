// Captions of scenes: written from a scene, and read back as what they claim.
//
// Grammar (words in brackets may be missing):
//   caption    = object [relation object] ["on a" background "background"]
//   object     = ("a" | "an") ["small" | "large"] colour shape
//   relation   = ["to the"] ("left of" | "right of") | "above" | "below"
// for example "a large red circle left of a small blue square on a gray background".
#ifndef DPIPE_DATA_SCENE_CAPTION_H_
#define DPIPE_DATA_SCENE_CAPTION_H_

#include <optional>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/base/status.h"
#include "data/scene.h"

namespace dpipe {

enum class SceneRelation { kLeftOf, kRightOf, kAbove, kBelow };

struct ObjectClaim {
  SceneColor color = SceneColor::kRed;
  SceneShape shape = SceneShape::kCircle;
  std::optional<bool> is_large;
};

struct CaptionClaim {
  std::vector<ObjectClaim> objects;  // one or two
  // Of two objects: how the first lies towards the second. Meaningless for one.
  SceneRelation relation = SceneRelation::kLeftOf;
  std::optional<SceneBackground> background;
};

// A caption that is true of `scene`. What it mentions (sizes: 60 %, background: 50 %), which object
// comes first and the wording are drawn from `random`.
std::string WriteCaption(const Scene& scene, RandomStream& random);

// Caption of scene `index` of `seed`, as the built-in data set has it.
std::string CaptionOfScene(const Scene& scene, uint64_t seed, uint64_t index);

// InvalidArgument, quoting the word that does not fit, for text outside the grammar.
absl::StatusOr<CaptionClaim> ParseCaption(const std::string& caption);

}  // namespace dpipe

#endif  // DPIPE_DATA_SCENE_CAPTION_H_
