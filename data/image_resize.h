// Resizing and cropping.
#ifndef DPIPE_DATA_IMAGE_RESIZE_H_
#define DPIPE_DATA_IMAGE_RESIZE_H_

#include "data/image.h"

namespace dpipe {

// Triangle filter ("bilinear"), as wide as a source pixel when enlarging and as a target pixel when
// shrinking, so that no source pixel is skipped: what PIL's BILINEAR and torchvision's antialias
// do. Agrees with PIL to within 1 of 255. `width`, `height` >= 1.
Image ResizeImage(const Image& image, int width, int height);

// An image longer than this is cut to it about its centre, so that a strip of pixels 1 high does
// not become an image thousands of times as wide as its target.
inline constexpr int kMaxAspect = 4;

// As small as the image can be without a part of the target left uncovered: one side is the
// target's, the other at least that and at most about kMaxAspect times that.
Image ShrinkToCover(Image image, ImageSize target);

// The `width` x `height` pixels whose first is (left, top); inside the image.
Image CropImage(const Image& image, int left, int top, int width, int height);

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGE_RESIZE_H_
