#include "data/images/image_resize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/base/check.h"

namespace dpipe {
namespace {

// The source pixels of a target pixel along one axis: weights of first, first + 1, ...; their sum
// is 1.
struct Taps {
  int first;
  std::vector<float> weights;
};

std::vector<Taps> TriangleTaps(int source_size, int target_size) {
  const double scale = static_cast<double>(source_size) / target_size;
  const double support = std::max(1.0, scale);
  std::vector<Taps> taps(target_size);
  for (int i = 0; i < target_size; ++i) {
    const double center = (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(center - support + 0.5));
    const int last = std::min(source_size, static_cast<int>(center + support + 0.5));
    taps[i].first = first;
    double sum = 0;
    for (int j = first; j < last; ++j) {
      sum += std::max(0.0, 1.0 - std::abs(j + 0.5 - center) / support);
    }
    for (int j = first; j < last; ++j) {
      const double weight = std::max(0.0, 1.0 - std::abs(j + 0.5 - center) / support);
      taps[i].weights.push_back(static_cast<float>(weight / sum));
    }
  }
  return taps;
}

}  // namespace

Image ResizeImage(const Image& image, int width, int height) {
  const std::vector<Taps> columns = TriangleTaps(image.width, width);
  const std::vector<Taps> rows = TriangleTaps(image.height, height);
  // Resizes the rows first: [source height, target width, 3].
  std::vector<float> narrowed(static_cast<size_t>(image.height) * width * 3);
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < width; ++x) {
      float* out = &narrowed[(static_cast<size_t>(y) * width + x) * 3];
      const uint8_t* in = image.At(columns[x].first, y);
      for (const float weight : columns[x].weights) {
        for (int c = 0; c < 3; ++c) out[c] += weight * *in++;
      }
    }
  }
  Image result(width, height);
  std::vector<float> line(static_cast<size_t>(width) * 3);
  for (int y = 0; y < height; ++y) {
    std::fill(line.begin(), line.end(), 0.5f);  // so that the cast below rounds
    for (size_t k = 0; k < rows[y].weights.size(); ++k) {
      const float weight = rows[y].weights[k];
      const float* in = &narrowed[(rows[y].first + k) * line.size()];
      for (size_t i = 0; i < line.size(); ++i) line[i] += weight * in[i];
    }
    uint8_t* out = result.At(0, y);
    for (size_t i = 0; i < line.size(); ++i) {
      out[i] = static_cast<uint8_t>(std::min(255.0f, line[i]));
    }
  }
  return result;
}

Image CropImage(const Image& image, int left, int top, int width, int height) {
  DPIPE_CHECK(left >= 0 && top >= 0 && left + width <= image.width && top + height <= image.height)
      << "crop of " << width << " x " << height << " at (" << left << ", " << top << ") of "
      << image.width << " x " << image.height;
  Image result(width, height);
  for (int y = 0; y < height; ++y) {
    memcpy(result.At(0, y), image.At(left, top + y), static_cast<size_t>(width) * 3);
  }
  return result;
}

Cover CoverOf(ImageSize image, ImageSize target) {
  const int64_t w = image.width, h = image.height;
  // True if the image is narrower than the target, so that the result has the target's width.
  const bool is_narrow = w * target.height <= h * target.width;
  const auto longest = [](int64_t other, int64_t side, int64_t other_side) {
    return static_cast<int>(std::max<int64_t>(1, kMaxAspect * other * side / other_side));
  };
  Cover cover;
  cover.width =
      is_narrow ? image.width : std::min(image.width, longest(h, target.width, target.height));
  cover.height =
      is_narrow ? std::min(image.height, longest(w, target.height, target.width)) : image.height;
  cover.left = (image.width - cover.width) / 2;
  cover.top = (image.height - cover.height) / 2;
  const auto scaled = [](int64_t side, int64_t to, int64_t from) {
    return static_cast<int>((side * to + from / 2) / from);
  };
  cover.resized.width = is_narrow ? target.width : scaled(cover.width, target.height, cover.height);
  cover.resized.height =
      is_narrow ? scaled(cover.height, target.width, cover.width) : target.height;
  return cover;
}

Image ShrinkToCover(Image image, ImageSize target) {
  const Cover cover = CoverOf({image.width, image.height}, target);
  if (cover.width < image.width || cover.height < image.height) {
    image = CropImage(image, cover.left, cover.top, cover.width, cover.height);
  }
  if (cover.resized.width == cover.width && cover.resized.height == cover.height) return image;
  return ResizeImage(image, cover.resized.width, cover.resized.height);
}

}  // namespace dpipe
