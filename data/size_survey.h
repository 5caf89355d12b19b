// What becomes of images when they are resized and cropped to the sizes of training steps.
#ifndef DPIPE_DATA_SIZE_SURVEY_H_
#define DPIPE_DATA_SIZE_SURVEY_H_

#include <cstdint>
#include <vector>

#include "data/image.h"
#include "data/step_order.h"

namespace dpipe {

// How an image comes to cover a target of another size, with its aspect kept.
struct ImageFit {
  double scale = 1;  // of its sides; above 1: enlarged
  double cut = 0;    // share of its area that is cut off
};
ImageFit FitOf(ImageSize image, ImageSize target);

// An image counts as cropped if more than this share of it is cut off: rounding to whole pixels
// cuts less.
inline constexpr double kCroppedAbove = 0.01;

struct SizeUse {
  ImageSize size;           // of steps
  int64_t num_samples = 0;  // trained on at this size
  // Of those looked at:
  int64_t num_known = 0;  // their own size is known
  int64_t num_cropped = 0;
  double sum_cut = 0;  // of their ImageFit::cut
  int64_t num_enlarged = 0;
};

struct SizeSurvey {
  std::vector<SizeUse> uses;  // as StepOrder::SizesInUse
  SizeUse all;                // the sums over `uses`; has no size
  // The image that is enlarged most, and the one of which most is cut off; -1: none is.
  int32_t most_enlarged = -1, most_cut = -1;
  ImageSize most_enlarged_size;
  double max_scale = 1, max_cut = 0;
};

// `images[i]` is the size of sample `indices[i]`; 0 x 0 if it is not known.
SizeSurvey SurveySizes(const StepOrder& order, const std::vector<int32_t>& indices,
                       const std::vector<ImageSize>& images);

}  // namespace dpipe

#endif  // DPIPE_DATA_SIZE_SURVEY_H_
