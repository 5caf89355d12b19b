#include "data/images/image_grid.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/host/available_memory.h"
#include "data/images/bitmap_text.h"

namespace dpipe {
namespace {

// Letters per line below large images. Small images have room for fewer, at scale 1.
constexpr int kCaptionLetters = 32;

// Places of everything in a grid, in pixels.
struct Geometry {
  int64_t columns = 1;
  int64_t image_width = 0, image_height = 0;  // enlarged
  int text_scale = 1;
  int64_t text_height = 0;
  int64_t width = 0, height = 0;                // of the whole grid
  std::vector<std::vector<std::string>> lines;  // by image; empty without captions

  Geometry(int64_t num_images, ImageSize size, const GridLayout& layout)
      : columns(std::clamp<int64_t>(layout.columns, 1, std::max<int64_t>(1, num_images))),
        image_width(int64_t{size.width} * layout.zoom),
        image_height(int64_t{size.height} * layout.zoom) {
    const int64_t letters = std::max<int64_t>(1, image_width / kLetterPitch);
    text_scale = static_cast<int>(std::max<int64_t>(1, letters / kCaptionLetters));
    size_t max_lines = 0;
    for (const std::string& caption : layout.captions) {
      lines.push_back(WrapText(caption, static_cast<int>(letters / text_scale), kMaxCaptionLines));
      max_lines = std::max(max_lines, lines.back().size());
    }
    text_height = static_cast<int64_t>(max_lines) * kLinePitch * text_scale;
    const int64_t rows = (num_images + columns - 1) / columns;
    width = columns * (image_width + layout.margin) + layout.margin;
    height = rows * (image_height + text_height + layout.margin) + layout.margin;
  }
};

}  // namespace

Image MakeGrid(const std::vector<Image>& images, const GridLayout& layout) {
  if (images.empty()) return Image(1, 1);
  const Geometry geometry(static_cast<int64_t>(images.size()), {images[0].width, images[0].height},
                          layout);
  Image grid(static_cast<int>(geometry.width), static_cast<int>(geometry.height));
  std::fill(grid.pixels.begin(), grid.pixels.end(), uint8_t{255});
  for (size_t i = 0; i < images.size(); ++i) {
    const auto column = static_cast<int64_t>(i) % geometry.columns;
    const auto row = static_cast<int64_t>(i) / geometry.columns;
    const auto left =
        static_cast<int>(layout.margin + column * (geometry.image_width + layout.margin));
    const auto top = static_cast<int>(
        layout.margin + row * (geometry.image_height + geometry.text_height + layout.margin));
    for (int y = 0; y < images[i].height * layout.zoom; ++y) {
      for (int x = 0; x < images[i].width * layout.zoom; ++x) {
        std::copy_n(images[i].At(x / layout.zoom, y / layout.zoom), 3, grid.At(left + x, top + y));
      }
    }
    if (i >= geometry.lines.size()) continue;
    // A gap of two pixels below the image; the last line ends two pixels above the next one.
    int text_top = top + static_cast<int>(geometry.image_height) + 2 * geometry.text_scale;
    for (const std::string& line : geometry.lines[i]) {
      DrawText(line, left, text_top, geometry.text_scale, &grid);
      text_top += kLinePitch * geometry.text_scale;
    }
  }
  return grid;
}

absl::Status CheckGrid(int64_t num_images, ImageSize size, const GridLayout& layout) {
  const Geometry grid(num_images, size, layout);
  const std::string what = absl::StrCat("a picture of ", num_images, " images, ", grid.width, " x ",
                                        grid.height, " pixels");
  if (std::max(grid.width, grid.height) > kMaxGridSide) {
    return absl::InvalidArgumentError(absl::StrCat(what, ", is larger than the maximum of ",
                                                   kMaxGridSide,
                                                   " per side: use fewer images, more columns or a "
                                                   "smaller zoom"));
  }
  constexpr double kChannels = 3, kCopies = 2;  // the picture and its file
  return CheckMemoryFor(what, kCopies * kChannels * static_cast<double>(grid.width) *
                                  static_cast<double>(grid.height));
}

}  // namespace dpipe
