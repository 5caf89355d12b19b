#include "data/images/image_grid.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/host/available_memory.h"

namespace dpipe {
namespace {

struct Sides {
  int64_t columns, width, height;
};

Sides SidesOf(int64_t num_images, ImageSize size, const GridLayout& layout) {
  const int64_t columns = std::clamp<int64_t>(layout.columns, 1, std::max<int64_t>(1, num_images));
  const int64_t rows = (num_images + columns - 1) / columns;
  const auto side = [&layout](int64_t count, int64_t pixels) {
    return count * (pixels * layout.zoom + layout.margin) + layout.margin;
  };
  return {columns, side(columns, size.width), side(rows, size.height)};
}

}  // namespace

Image MakeGrid(const std::vector<Image>& images, const GridLayout& layout) {
  if (images.empty()) return Image(1, 1);
  const ImageSize size = {images[0].width, images[0].height};
  const Sides sides = SidesOf(static_cast<int64_t>(images.size()), size, layout);
  const auto place = [&layout](int64_t index, int pixels) {
    return layout.margin + static_cast<int>(index) * (pixels * layout.zoom + layout.margin);
  };
  Image grid(static_cast<int>(sides.width), static_cast<int>(sides.height));
  std::fill(grid.pixels.begin(), grid.pixels.end(), uint8_t{255});
  for (size_t i = 0; i < images.size(); ++i) {
    const int left = place(i % sides.columns, size.width);
    const int top = place(i / sides.columns, size.height);
    for (int y = 0; y < images[i].height * layout.zoom; ++y) {
      for (int x = 0; x < images[i].width * layout.zoom; ++x) {
        std::copy_n(images[i].At(x / layout.zoom, y / layout.zoom), 3, grid.At(left + x, top + y));
      }
    }
  }
  return grid;
}

absl::Status CheckGrid(int64_t num_images, ImageSize size, const GridLayout& layout) {
  const Sides sides = SidesOf(num_images, size, layout);
  const std::string what = absl::StrCat("a picture of ", num_images, " images, ", sides.width,
                                        " x ", sides.height, " pixels");
  if (std::max(sides.width, sides.height) > kMaxGridSide) {
    return absl::InvalidArgumentError(absl::StrCat(what, ", is larger than the maximum of ",
                                                   kMaxGridSide,
                                                   " per side: use fewer images, more columns or a "
                                                   "smaller zoom"));
  }
  constexpr double kChannels = 3, kCopies = 2;  // the picture and its file
  return CheckMemoryFor(what, kCopies * kChannels * static_cast<double>(sides.width) *
                                  static_cast<double>(sides.height));
}

}  // namespace dpipe
