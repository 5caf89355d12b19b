// What is to be seen in an image of a scene: the judge of whether a drawn image fits its caption.
//
// The background is the median of the image's border; what differs from it falls into connected
// regions. Of each region: colour = nearest of the palette to the median of its inner pixels; shape
// = the renderer's shape that overlaps it best (intersection over union of coverages) when placed
// with the region's area and centroid. Measured on generated scenes: see scene_recognizer_test.cc.
#ifndef DPIPE_DATA_SCENE_RECOGNIZER_H_
#define DPIPE_DATA_SCENE_RECOGNIZER_H_

#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/image.h"
#include "data/scene.h"
#include "data/scene_caption.h"

namespace dpipe {

struct RecognizedObject {
  SceneObject object;     // positions and radius as fractions of the image's width
  float shape_iou = 0;    // overlap with the shape chosen, in [0, 1]
  float area_pixels = 0;  // covered, in pixels
};

struct RecognizedScene {
  SceneBackground background = SceneBackground::kBlack;
  std::vector<RecognizedObject> objects;  // the largest area first
};

// Regions smaller than 1/250 of the image are taken for noise.
RecognizedScene RecognizeScene(const Image& image);

// How the second object lies from the first: along the axis of the larger distance between centres,
// so that exactly one relation holds for any two.
SceneRelation RelationOf(const SceneObject& first, const SceneObject& second);

// What of a caption holds in an image. Claimed objects are compared with as many of the largest
// regions, in the pairing that makes most of them right.
struct SceneMatch {
  int num_claimed = 0;           // objects in the caption
  int num_colors_right = 0;      // of them: of the claimed colour
  int num_shapes_right = 0;      // of the claimed shape, with an overlap of at least 0.7
  int num_objects_right = 0;     // both
  bool relation_right = true;    // true too if the caption claims none
  bool sizes_right = true;       // likewise
  bool background_right = true;  // likewise

  // The measure of samples: each claimed object is there with its colour and shape.
  bool ColorsAndShapesHold() const { return num_objects_right == num_claimed; }
  bool AllHolds() const {
    return ColorsAndShapesHold() && relation_right && sizes_right && background_right;
  }
};

// InvalidArgument for a caption outside the grammar of scene_caption.h.
absl::StatusOr<SceneMatch> MatchCaption(const Image& image, const std::string& caption);

// The same for what was recognized and parsed before.
SceneMatch MatchClaim(const RecognizedScene& scene, const CaptionClaim& claim);

}  // namespace dpipe

#endif  // DPIPE_DATA_SCENE_RECOGNIZER_H_
