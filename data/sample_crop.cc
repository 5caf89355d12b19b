#include "data/sample_crop.h"

#include "core/base/philox.h"

namespace dpipe {
namespace {

// Returns an offset in a picture of `from` pixels as one in the picture resized to `to`.
int InResized(int offset, int from, int to) {
  return static_cast<int>((int64_t{2} * offset * to + from) / (int64_t{2} * from));
}

}  // namespace

CropChoice ChooseCrop(ImageSize image, ImageSize size, const CropDraws& draws, int64_t step,
                      int sample) {
  CropChoice choice = {(image.width - size.width) / 2, (image.height - size.height) / 2, false};
  if (draws.random_crop) {
    RandomStream random(draws.seed, step, sample, RandomPurpose::kCrop);
    choice.left = random.NextBelow(image.width - size.width + 1);
    choice.top = random.NextBelow(image.height - size.height + 1);
  }
  if (draws.random_flip) {
    RandomStream random(draws.seed, step, sample, RandomPurpose::kFlip);
    choice.flipped = random.NextBelow(2) == 1;
  }
  return choice;
}

SampleCrop CropInPicture(ImageSize original, const Cover& cover, const Patch& patch,
                         const CropChoice& choice) {
  SampleCrop crop;
  crop.original = original;
  crop.left = choice.flipped ? cover.resized.width - choice.left - patch.whole.width : choice.left;
  crop.left += patch.left + InResized(cover.left, cover.width, cover.resized.width);
  crop.top = choice.top + patch.top + InResized(cover.top, cover.height, cover.resized.height);
  crop.size = patch.size;
  return crop;
}

void WritePixels(const Image& image, const CropChoice& crop, const Patch& patch, float divisor,
                 float offset, float* out) {
  for (int y = patch.top; y < patch.top + patch.size.height; ++y) {
    for (int x = patch.left; x < patch.left + patch.size.width; ++x) {
      const int column = crop.flipped ? patch.whole.width - 1 - x : x;
      const uint8_t* pixel = image.At(crop.left + column, crop.top + y);
      for (int c = 0; c < 3; ++c) *out++ = static_cast<float>(pixel[c]) / divisor + offset;
    }
  }
}

}  // namespace dpipe
