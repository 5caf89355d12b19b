// Statistics of how images are resized and cropped to the sizes of training steps.
#ifndef DPIPE_DATA_ORDER_SIZE_SURVEY_H_
#define DPIPE_DATA_ORDER_SIZE_SURVEY_H_

#include <cstdint>
#include <vector>

#include "data/images/image.h"
#include "data/order/step_order.h"

namespace dpipe {

// How an image is scaled and cropped to cover a target of another size, keeping its aspect.
struct ImageFit {
  double scale = 1;  // of its sides; more than 1 if it is enlarged
  double cut = 0;    // share of its area that is cropped
};
ImageFit FitOf(ImageSize image, ImageSize target);

// An image counts as cropped if more than this share of it is cut off. Rounding to whole pixels
// cuts less.
inline constexpr double kCroppedThreshold = 0.01;

struct SizeUse {
  ImageSize size;           // the size of steps
  int64_t num_samples = 0;  // trained on at this size
  // Of the surveyed samples:
  int64_t num_known = 0;  // with a known size
  int64_t num_cropped = 0;
  double sum_cut = 0;  // sum of ImageFit::cut
  int64_t num_enlarged = 0;
};

struct SizeSurvey {
  std::vector<SizeUse> uses;  // like StepOrder::SizesInUse
  SizeUse all;                // the sums over `uses`; has no size
  // The images with the largest scale and the largest cut; -1 if none is enlarged or cropped.
  int32_t most_enlarged = -1, most_cropped = -1;
  ImageSize most_enlarged_size;
  double max_scale = 1, max_cut = 0;
};

// `images[i]` is the size of sample `indices[i]`, or 0 x 0 if unknown.
SizeSurvey SurveySizes(const StepOrder& order, const std::vector<int32_t>& indices,
                       const std::vector<ImageSize>& images);

}  // namespace dpipe

#endif  // DPIPE_DATA_ORDER_SIZE_SURVEY_H_
