#include "data/order/size_survey.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/check.h"

namespace dpipe {

ImageFit FitOf(ImageSize image, ImageSize target) {
  const double across = static_cast<double>(target.width) / image.width;
  const double down = static_cast<double>(target.height) / image.height;
  ImageFit fit;
  fit.scale = std::max(across, down);
  // In the other direction, the scaled image is longer than the target by this ratio.
  fit.cut = 1 - std::min(across, down) / fit.scale;
  return fit;
}

SizeSurvey SurveySizes(const StepOrder& order, const std::vector<int32_t>& indices,
                       const std::vector<ImageSize>& images) {
  DPIPE_CHECK_EQ(indices.size(), images.size());
  SizeSurvey survey;
  std::map<std::pair<int, int>, size_t> places;
  for (const StepOrder::SizeInUse& use : order.SizesInUse()) {
    places.emplace(std::make_pair(use.size.width, use.size.height), survey.uses.size());
    survey.uses.push_back({use.size, use.num_samples});
    survey.all.num_samples += use.num_samples;
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    if (images[i].width == 0) continue;
    const ImageSize target = order.SizeOfSample(indices[i]);
    const ImageFit fit = FitOf(images[i], target);
    for (SizeUse* use : {&survey.uses[places.at({target.width, target.height})], &survey.all}) {
      ++use->num_known;
      use->num_cropped += fit.cut > kCroppedThreshold;
      use->sum_cut += fit.cut;
      use->num_enlarged += fit.scale > 1;
    }
    if (fit.scale > survey.max_scale) {
      survey.max_scale = fit.scale;
      survey.most_enlarged = indices[i];
      survey.most_enlarged_size = images[i];
    }
    if (fit.cut > std::max(survey.max_cut, kCroppedThreshold)) {
      survey.max_cut = fit.cut;
      survey.most_cropped = indices[i];
    }
  }
  return survey;
}

}  // namespace dpipe
