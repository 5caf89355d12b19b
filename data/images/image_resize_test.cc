#include "data/images/image_resize.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "data/images/image_decode.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(ImageResizeTest, AgreesWithPil) {
  const Image color = ReadImage("data/testdata/color.png").value();
  for (const auto& [width, height] : {std::pair(16, 16), {80, 50}, {7, 61}, {1, 1}}) {
    const std::string name =
        "data/testdata/resized_" + std::to_string(width) + "x" + std::to_string(height) + ".png";
    const Image expected = ReadImage(name).value();
    const Image resized = ResizeImage(color, width, height);
    ASSERT_EQ(resized.width, width);
    ASSERT_EQ(resized.height, height);
    int largest = 0;
    for (size_t i = 0; i < expected.pixels.size(); ++i) {
      largest = std::max(largest, std::abs(expected.pixels[i] - resized.pixels[i]));
    }
    EXPECT_LE(largest, 1) << name;
  }
}

TEST(ImageResizeTest, SameSizeIsTheSameImage) {
  const Image color = ReadImage("data/testdata/color.png").value();
  EXPECT_EQ(ResizeImage(color, color.width, color.height).pixels, color.pixels);
}

TEST(ImageResizeTest, ConstantStaysConstant) {
  Image image(13, 7);
  std::fill(image.pixels.begin(), image.pixels.end(), 201);
  for (const int size : {1, 3, 64}) {
    for (const uint8_t value : ResizeImage(image, size, size).pixels) EXPECT_EQ(value, 201);
  }
}

// Computed by hand: halving four pixels 0, 80, 160, 240. The support is 2, and the weights at
// distances 0.5 and 1.5 are 0.75 and 0.25. Pixel 0 is (0.75 * 0 + 0.75 * 80 + 0.25 * 160) / 1.75 =
// 100 / 1.75 = 57.1.
TEST(ImageResizeTest, HalvingByHand) {
  Image image(4, 1);
  for (int x = 0; x < 4; ++x) std::fill_n(image.At(x, 0), 3, static_cast<uint8_t>(80 * x));
  const Image half = ResizeImage(image, 2, 1);
  EXPECT_EQ(half.At(0, 0)[0], 57);
  EXPECT_EQ(half.At(1, 0)[0], 183);  // (0.25 * 80 + 0.75 * 160 + 0.75 * 240) / 1.75 = 182.9
}

TEST(ImageResizeTest, CropTakesTheRightPixels) {
  Image image(5, 4);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i);
  const Image crop = CropImage(image, 2, 1, 3, 2);
  EXPECT_EQ(crop.width, 3);
  EXPECT_EQ(crop.height, 2);
  EXPECT_EQ(crop.At(0, 0)[0], image.At(2, 1)[0]);
  EXPECT_EQ(crop.At(2, 1)[2], image.At(4, 2)[2]);
}

}  // namespace
}  // namespace dpipe
