// Which part of its picture a sample is: drawn, located, and written as floats.
#ifndef DPIPE_DATA_SAMPLE_CROP_H_
#define DPIPE_DATA_SAMPLE_CROP_H_

#include <cstdint>

#include "data/images/image.h"
#include "data/images/image_resize.h"
#include "data/images/patches.h"

namespace dpipe {

// Where a sample is in its picture.
struct SampleCrop {
  ImageSize original;     // of the picture in its file
  int left = 0, top = 0;  // of the sample in the picture as resized and, if so drawn, flipped
  ImageSize size;         // of the sample
};

// What is drawn for a sample.
struct CropDraws {
  uint64_t seed = 0;
  bool random_crop = false;  // otherwise the centre
  bool random_flip = false;  // horizontally, with probability 1/2
};

// The place of a sample in its picture as resized. It is cropped first and flipped then.
struct CropChoice {
  int left;
  int top;
  bool flipped;
};

// Chooses a part of `size` pixels of a resized picture of `image` pixels, for a sample of a step:
// from RandomStream(seed, step, sample, kCrop and kFlip).
CropChoice ChooseCrop(ImageSize image, ImageSize size, const CropDraws& draws, int64_t step,
                      int sample);

// Returns where the patch of a choice is in the picture. `cover` is how a picture of `original`
// pixels was cut and resized.
SampleCrop CropInPicture(ImageSize original, const Cover& cover, const Patch& patch,
                         const CropChoice& choice);

// Writes the patch of the crop as [H, W, 3] floats: byte b becomes b / divisor + offset.
void WritePixels(const Image& image, const CropChoice& crop, const Patch& patch, float divisor,
                 float offset, float* out);

}  // namespace dpipe

#endif  // DPIPE_DATA_SAMPLE_CROP_H_
