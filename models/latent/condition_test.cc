#include "models/latent/condition.h"

#include "gtest/gtest.h"

namespace dpipe::models {
namespace {

// 64 pixels are 16 latent pixels, 15 steps from -1 to 1.
float At(double place) { return static_cast<float>(2 * place / 15 - 1); }

TEST(PatchCoordinatesTest, AWholePictureGoesFromMinusOneToOne) {
  const Tensor all = PatchCoordinates(Device::Cpu(), {{0, 0, {64, 64}, {64, 64}}}, 4);
  ASSERT_EQ(all.shape(), (Shape{1, 16, 16, 2}));
  const float* place = all.data<float>();
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 16; ++x, place += 2) {
      EXPECT_FLOAT_EQ(place[0], At(x));
      EXPECT_FLOAT_EQ(place[1], At(y));
    }
  }
  EXPECT_EQ(all.data<float>()[0], -1);
  EXPECT_EQ(place[-1], 1);
}

TEST(PatchCoordinatesTest, APatchHasThoseOfItsPartOfThePicture) {
  const Patch aligned{32, 16, {16, 16}, {64, 64}};
  const Patch between{2, 47, {16, 16}, {64, 64}};  // at 0.5 and 11.75 latent pixels
  const Tensor both = PatchCoordinates(Device::Cpu(), {aligned, between}, 4);
  ASSERT_EQ(both.shape(), (Shape{2, 4, 4, 2}));
  const float* place = both.data<float>();
  for (const auto& [left, top] : {std::pair{8.0, 4.0}, std::pair{0.5, 11.75}}) {
    for (int y = 0; y < 4; ++y) {
      for (int x = 0; x < 4; ++x, place += 2) {
        EXPECT_FLOAT_EQ(place[0], At(left + x));
        EXPECT_FLOAT_EQ(place[1], At(top + y));
      }
    }
  }
}

TEST(PatchCoordinatesTest, WidthAndHeightHaveScalesOfTheirOwn) {
  const Tensor wide = PatchCoordinates(Device::Cpu(), {{0, 0, {24, 8}, {24, 8}}}, 4);
  ASSERT_EQ(wide.shape(), (Shape{1, 2, 6, 2}));
  EXPECT_FLOAT_EQ(wide.data<float>()[2], 2.0f / 5 - 1);
  EXPECT_EQ(wide.data<float>()[2 * 5], 1);
  EXPECT_EQ(wide.data<float>()[1], -1);
  EXPECT_EQ(wide.data<float>()[2 * 6 + 1], 1);
}

}  // namespace
}  // namespace dpipe::models
