// Leaves out images that are too small to train on.
#ifndef DPIPE_DATA_ORDER_SMALL_IMAGES_H_
#define DPIPE_DATA_ORDER_SMALL_IMAGES_H_

#include <memory>
#include <string>

#include "core/base/status.h"
#include "data/order/image_sizes.h"
#include "data/sample_source.h"

namespace dpipe {

struct FilteredSource {
  std::unique_ptr<SampleSource> source;  // unchanged if no image is too small
  std::string note;                      // what was left out, for the user; empty if nothing
};

// Leaves out the images whose shorter side, by their headers, has fewer than `min_side` pixels.
// Keeps images with unreadable headers, which are counted when they are skipped. Returns
// InvalidArgument if none is left, and Unavailable if the storage does not respond.
absl::StatusOr<FilteredSource> FilterSmallImages(std::unique_ptr<SampleSource> source, int min_side,
                                                 ImageSizes* sizes);

}  // namespace dpipe

#endif  // DPIPE_DATA_ORDER_SMALL_IMAGES_H_
