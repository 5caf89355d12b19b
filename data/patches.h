// Random patches of pictures, as Patch Diffusion trains on them (Wang et al., "Patch Diffusion:
// Faster and More Data-Efficient Training of Diffusion Models", NeurIPS 2023, arXiv 2304.12526).
//
// All samples of a step have patches of one size, which the step draws; where a sample's patch lies
// in its picture, the sample draws. Deviations from the paper: a step of small patches has as many
// of them as one of whole pictures has pictures, not more; and where the model works on latents,
// patches are cut from the picture, so that frozen components encode no more than the patch.
#ifndef DPIPE_DATA_PATCHES_H_
#define DPIPE_DATA_PATCHES_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "data/image.h"

namespace dpipe {

struct PatchSize {
  int side = 0;            // pixels; the picture's own: no patch but all of it
  double probability = 0;  // of a step to have it
};

// The paper's sizes for square pictures: all of the picture with probability 1 - share, half its
// side with 3/5 of the share, a quarter with 2/5 of it. Largest first, and none of probability 0.
// Where a quarter is no multiple of `multiple`, halves have its part. InvalidArgument: a share that
// is not in (0, 1], or would have a size in less than a step of 1000; a half that is no multiple.
absl::StatusOr<std::vector<PatchSize>> MakePatchSizes(int image_size, int multiple, double share);

// A part of a picture of size `whole`.
struct Patch {
  int left = 0;
  int top = 0;
  ImageSize size;
  ImageSize whole;
};

// What steps and samples draw: a function of (seed, step, sample) alone. Immutable; thread-safe.
class PatchDraws {
 public:
  // `sizes` as MakePatchSizes makes them for `image_size`.
  PatchDraws(uint64_t seed, int image_size, std::vector<PatchSize> sizes);

  int SideOf(int64_t step) const;
  // The first step, from `step` on, whose patches are of sizes()[i]. O(1 / its probability).
  int64_t FirstStepOf(int i, int64_t step = 0) const;
  // Any place within the picture is as likely as any other.
  Patch Of(int64_t step, int sample) const;

  const std::vector<PatchSize>& sizes() const { return sizes_; }

 private:
  const uint64_t seed_;
  const int image_size_;
  const std::vector<PatchSize> sizes_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_PATCHES_H_
