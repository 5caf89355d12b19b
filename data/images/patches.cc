#include "data/images/patches.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/philox.h"

namespace dpipe {
namespace {

// Patches use kCrop like pictures, but with sample numbers that no batch has. Otherwise a patch's
// position would be correlated with its picture's crop.
constexpr uint32_t kPatchSamples = 1u << 31;
constexpr uint32_t kSizeSample = ~0u;

constexpr double kHalfSizeShare = 0.6;
constexpr double kMinProbability = 1e-3;

}  // namespace

absl::StatusOr<std::vector<PatchSize>> MakePatchSizes(int image_size, int multiple, double share) {
  if (!(share > 0 && share <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("patches: a share of ", share, " of the steps is not in (0, 1]"));
  }
  if (image_size % (2 * multiple) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("patches: half of ", image_size,
                                                   " pixels is not a multiple of ", multiple,
                                                   ", as the model's sizes must be"));
  }
  const bool has_quarters = image_size % (4 * multiple) == 0;
  std::vector<PatchSize> sizes;
  if (share < 1) sizes.push_back({image_size, 1 - share});
  sizes.push_back({image_size / 2, has_quarters ? kHalfSizeShare * share : share});
  if (has_quarters) sizes.push_back({image_size / 4, (1 - kHalfSizeShare) * share});
  for (const PatchSize& size : sizes) {
    if (size.probability >= kMinProbability) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "patches: with a share of ", share, " only one step in ", 1 / size.probability,
        " would have ", size.side, " pixels; the minimum is one in ", 1 / kMinProbability));
  }
  return sizes;
}

PatchDraws::PatchDraws(uint64_t seed, int image_size, std::vector<PatchSize> sizes)
    : seed_(seed), image_size_(image_size), sizes_(std::move(sizes)) {
  DPIPE_CHECK(!sizes_.empty());
}

int PatchDraws::SideOf(int64_t step) const {
  double left = RandomStream(seed_, step, kSizeSample, RandomPurpose::kCrop).NextUniform();
  for (const PatchSize& size : sizes_) {
    if (left < size.probability) return size.side;
    left -= size.probability;
  }
  return sizes_.back().side;  // reached only by rounding
}

int64_t PatchDraws::FirstStepOf(int i, int64_t step) const {
  while (SideOf(step) != sizes_[i].side) ++step;
  return step;
}

Patch PatchDraws::Of(int64_t step, int sample) const {
  const int side = SideOf(step);
  RandomStream random(seed_, step, kPatchSamples + static_cast<uint32_t>(sample),
                      RandomPurpose::kCrop);
  Patch patch;
  patch.left = static_cast<int>(random.NextBelow(image_size_ - side + 1));
  patch.top = static_cast<int>(random.NextBelow(image_size_ - side + 1));
  patch.size = {side, side};
  patch.whole = {image_size_, image_size_};
  return patch;
}

}  // namespace dpipe
