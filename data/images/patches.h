// Random patches of pictures for Patch Diffusion (Wang et al., "Patch Diffusion: Faster and More
// Data-Efficient Training of Diffusion Models", NeurIPS 2023, arXiv 2304.12526).
//
// All samples of a step have patches of one size, which is drawn per step. The position of a patch
// in its picture is drawn per sample. Deviations from the paper:
// - A step of small patches has as many samples as a step of whole pictures, not more.
// - If the model works on latents, patches are cut from the picture, so that frozen components
//   encode no more than the patch.
#ifndef DPIPE_DATA_IMAGES_PATCHES_H_
#define DPIPE_DATA_IMAGES_PATCHES_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "data/images/image.h"

namespace dpipe {

struct PatchSize {
  int side = 0;            // in pixels; the picture's own side means the whole picture
  double probability = 0;  // of a step with this size
};

// Returns the paper's sizes for square pictures: the whole picture with probability 1 - share, half
// its side with 3/5 of the share, a quarter with 2/5 of it. Sorted by decreasing size, without
// sizes of probability 0. If a quarter is not a multiple of `multiple`, halves get its probability
// too. Returns InvalidArgument if the share is not in (0, 1] or gives a size to fewer than one step
// in 1000, or if a half is not a multiple.
absl::StatusOr<std::vector<PatchSize>> MakePatchSizes(int image_size, int multiple, double share);

// A part of a picture of size `whole`.
struct Patch {
  int left = 0;
  int top = 0;
  ImageSize size;
  ImageSize whole;
};

// The draws of steps and samples, which depend on (seed, step, sample) alone. Immutable and
// thread-safe.
class PatchDraws {
 public:
  // `sizes` must come from MakePatchSizes for `image_size`.
  PatchDraws(uint64_t seed, int image_size, std::vector<PatchSize> sizes);

  int SideOf(int64_t step) const;
  // Returns the first step >= `step` with patches of sizes()[i]. O(1 / its probability).
  int64_t FirstStepOf(int i, int64_t step = 0) const;
  // Returns a patch at a position drawn uniformly from the whole picture.
  Patch Of(int64_t step, int sample) const;

  const std::vector<PatchSize>& sizes() const { return sizes_; }

 private:
  const uint64_t seed_;
  const int image_size_;
  const std::vector<PatchSize> sizes_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGES_PATCHES_H_
