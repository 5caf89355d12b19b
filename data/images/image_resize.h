// Resizing and cropping.
#ifndef DPIPE_DATA_IMAGES_IMAGE_RESIZE_H_
#define DPIPE_DATA_IMAGES_IMAGE_RESIZE_H_

#include "data/images/image.h"

namespace dpipe {

// Resizes with a triangle filter ("bilinear"), as wide as a source pixel when enlarging and as a
// target pixel when shrinking, so that no source pixel is skipped. This is the filter of PIL's
// BILINEAR and torchvision's antialias. Agrees with PIL to within 1 of 255. `width`, `height` >= 1.
Image ResizeImage(const Image& image, int width, int height);

// The maximum aspect ratio relative to the target. A longer image is cropped about its centre.
// Otherwise a strip of pixels 1 high would become an image thousands of times as wide as its
// target.
inline constexpr int kMaxAspect = 4;

// How an image is made to cover a target: its part of `width` x `height` pixels from (left, top) is
// resized to `resized`.
struct Cover {
  int left = 0, top = 0, width = 0, height = 0;
  ImageSize resized;
};
Cover CoverOf(ImageSize image, ImageSize target);

// Shrinks the image as far as it still covers the target: one side equals the target's, the other
// is at least that and at most about kMaxAspect times that (CoverOf).
Image ShrinkToCover(Image image, ImageSize target);

// Returns the `width` x `height` pixels whose top left is (left, top). They must be inside the
// image.
Image CropImage(const Image& image, int left, int top, int width, int height);

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGES_IMAGE_RESIZE_H_
