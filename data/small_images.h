// Leaves images out that are too small to train on.
#ifndef DPIPE_DATA_SMALL_IMAGES_H_
#define DPIPE_DATA_SMALL_IMAGES_H_

#include <memory>
#include <string>

#include "core/base/status.h"
#include "data/image_sizes.h"
#include "data/sample_source.h"

namespace dpipe {

struct LargeEnough {
  std::unique_ptr<SampleSource> source;  // as it was if no image is too small
  std::string note;                      // what was left out, for a person; empty: nothing
};

// Leaves out the images whose shorter side has fewer than `min_side` pixels, by their headers.
// Keeps those whose headers cannot be read: they are counted where they are skipped.
// InvalidArgument if none is left; Unavailable if the storage does not answer.
absl::StatusOr<LargeEnough> LeaveOutSmall(std::unique_ptr<SampleSource> source, int min_side,
                                          ImageSizes* sizes);

}  // namespace dpipe

#endif  // DPIPE_DATA_SMALL_IMAGES_H_
