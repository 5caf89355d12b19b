// Combines images into one grid.
#ifndef DPIPE_DATA_IMAGES_IMAGE_GRID_H_
#define DPIPE_DATA_IMAGES_IMAGE_GRID_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/images/image.h"

namespace dpipe {

struct GridLayout {
  int columns = 1;  // at most as many as there are images
  int margin = 0;   // white pixels around each image
  int zoom = 1;     // enlargement factor of each image
  // If not empty, one per image, drawn below it in up to kMaxCaptionLines lines. Longer captions
  // end in an ellipsis. All images get as many lines as the longest caption needs.
  std::vector<std::string> captions = {};
};
inline constexpr int kMaxCaptionLines = 3;

// Returns the grid of images, which must all have one size.
Image MakeGrid(const std::vector<Image>& images, const GridLayout& layout);

// Checks a grid before its images are made. Returns InvalidArgument if the grid of `num_images` of
// this size would have more than kMaxGridSide pixels per side. Returns ResourceExhausted if there
// is too little memory for it and for its file.
constexpr int64_t kMaxGridSide = int64_t{1} << 20;
absl::Status CheckGrid(int64_t num_images, ImageSize size, const GridLayout& layout);

}  // namespace dpipe

#endif  // DPIPE_DATA_IMAGES_IMAGE_GRID_H_
