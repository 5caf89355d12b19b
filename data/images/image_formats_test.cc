#include "data/images/image_formats.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

// A directory of two entries, the second of which is the orientation.
std::string Little(int orientation) {
  return std::string("II*\0\x08\0\0\0\x02\0", 10) +
         std::string("\x0f\x01\x02\0\x04\0\0\0abc\0", 12) +
         std::string("\x12\x01\x03\0\x01\0\0\0", 8) + static_cast<char>(orientation) +
         std::string("\0\0\0\0\0\0\0", 7);
}
std::string Big(int orientation) {
  return std::string("MM\0*\0\0\0\x08\0\x01", 10) + std::string("\x01\x12\0\x03\0\0\0\x01\0", 9) +
         static_cast<char>(orientation) + std::string("\0\0\0\0\0\0", 6);
}

TEST(ExifTest, ReadsBothByteOrders) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    EXPECT_EQ(ExifOrientation(Little(orientation)), orientation);
    EXPECT_EQ(ExifOrientation(Big(orientation)), orientation);
    EXPECT_EQ(ExifOrientation(std::string("Exif\0\0", 6) + Big(orientation)), orientation);
  }
}

TEST(ExifTest, DamagedDataIsUpright) {
  EXPECT_EQ(ExifOrientation(""), 1);
  EXPECT_EQ(ExifOrientation("II*"), 1);
  EXPECT_EQ(ExifOrientation(Little(0)), 1);
  EXPECT_EQ(ExifOrientation(Little(9)), 1);
  const std::string good = Little(6);
  for (size_t size = 0; size < 30; ++size) EXPECT_EQ(ExifOrientation(good.substr(0, size)), 1);
  std::string far = good;
  far.replace(4, 4, "\xff\xff\xff\xff");  // the position of the directory
  EXPECT_EQ(ExifOrientation(far), 1);
  std::string many = good;
  many.replace(8, 2, "\xff\xff");  // the number of entries
  many[22] = 0x13;                 // none of them the orientation
  EXPECT_EQ(ExifOrientation(many), 1);
}

// Applying the inverse restores the image. Every orientation except 6 and 8 is its own inverse.
TEST(ExifTest, OrientationsHaveInverses) {
  Image image(3, 2);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image turned = ApplyOrientation(image, orientation);
    EXPECT_EQ(turned.width, orientation >= 5 ? 2 : 3);
    EXPECT_EQ(turned.pixels == image.pixels, orientation == 1);
    const int inverse = orientation == 6 ? 8 : orientation == 8 ? 6 : orientation;
    EXPECT_EQ(ApplyOrientation(turned, inverse).pixels, image.pixels) << orientation;
  }
  // Its right side is up, so the first pixel is at the top right of the upright image.
  EXPECT_EQ(ApplyOrientation(image, 6).At(1, 0)[0], 0);
}

}  // namespace

}  // namespace dpipe
