// Recognizes the objects in an image of a scene, to judge whether a drawn image fits its caption.
//
// 1. The background is the median of the image's border.
// 2. Pixels that differ from it form connected regions.
// 3. A region's colour is the palette's nearest to the median of its inner pixels.
// 4. A region's shape is the renderer's shape that overlaps it best, by intersection over union of
//    coverages, when placed with the region's area and centroid.
//
// For its accuracy on generated scenes see scene_recognizer_test.cc.
#ifndef DPIPE_DATA_SCENES_SCENE_RECOGNIZER_H_
#define DPIPE_DATA_SCENES_SCENE_RECOGNIZER_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/images/image.h"
#include "data/scenes/scene.h"
#include "data/scenes/scene_caption.h"

namespace dpipe {

struct RecognizedObject {
  SceneObject object;     // positions and radius as fractions of the image's width
  float shape_iou = 0;    // overlap with the chosen shape, in [0, 1]
  float area_pixels = 0;  // covered area in pixels
};

struct RecognizedScene {
  SceneBackground background = SceneBackground::kBlack;
  std::vector<RecognizedObject> objects;  // by decreasing area
};

// Recognizes a scene. Regions smaller than 1/250 of the image count as noise.
RecognizedScene RecognizeScene(const Image& image);

// Returns the position of the first object relative to the second, along the axis of the larger
// distance between centres. So exactly one relation holds for any two objects.
SceneRelation RelationOf(const SceneObject& first, const SceneObject& second);

// The claims of a caption that are true of an image. Claimed objects are compared with equally many
// of the largest regions, in the pairing that matches best.
struct SceneMatch {
  int num_claimed = 0;           // objects in the caption
  int num_colors_right = 0;      // those with the claimed colour
  int num_shapes_right = 0;      // those with the claimed shape and an overlap of at least 0.7
  int num_objects_right = 0;     // both
  bool relation_right = true;    // also true if the caption claims none
  bool sizes_right = true;       // the same
  bool background_right = true;  // the same

  // The quality measure of samples: each claimed object is present with its colour and shape.
  bool ColorsAndShapesHold() const { return num_objects_right == num_claimed; }
  bool AllHolds() const {
    return ColorsAndShapesHold() && relation_right && sizes_right && background_right;
  }
};

// Returns InvalidArgument for a caption outside the grammar of scene_caption.h.
absl::StatusOr<SceneMatch> MatchCaption(const Image& image, const std::string& caption);

// The same for a recognized scene and a parsed caption.
SceneMatch MatchClaim(const RecognizedScene& scene, const CaptionClaim& claim);

}  // namespace dpipe

#endif  // DPIPE_DATA_SCENES_SCENE_RECOGNIZER_H_
