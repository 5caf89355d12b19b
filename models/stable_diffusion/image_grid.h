// Images side by side in one.
#ifndef DPIPE_MODELS_STABLE_DIFFUSION_IMAGE_GRID_H_
#define DPIPE_MODELS_STABLE_DIFFUSION_IMAGE_GRID_H_

#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "data/image.h"

namespace dpipe::models {

struct GridLayout {
  int columns = 1;  // no more are drawn than there are images
  int margin = 0;   // white pixels around each image
  int zoom = 1;     // factor by which each is enlarged
};

// Returns the grid of images of one size.
Image MakeGrid(const std::vector<Image>& images, const GridLayout& layout);

// Before the images are made: InvalidArgument if the grid of `num_images` of this size would have
// more than kMaxGridSide pixels a side, ResourceExhausted if there is no memory for it and for the
// file made of it.
constexpr int64_t kMaxGridSide = int64_t{1} << 20;
absl::Status CheckGrid(int64_t num_images, ImageSize size, const GridLayout& layout);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_STABLE_DIFFUSION_IMAGE_GRID_H_
