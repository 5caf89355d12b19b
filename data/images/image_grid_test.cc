#include "data/images/image_grid.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::HasSubstr;

TEST(ImageGridTest, HasNoMoreColumnsThanImages) {
  const std::vector<Image> images(3, Image(2, 5));
  const Image grid = MakeGrid(images, {/*columns=*/2'000'000'000, /*margin=*/1, /*zoom=*/2});
  EXPECT_EQ(grid.width, 3 * (2 * 2 + 1) + 1);
  EXPECT_EQ(grid.height, 5 * 2 + 2);
  EXPECT_EQ(*grid.At(1, 1), 0);
  EXPECT_EQ(*grid.At(0, 0), 255);
}

TEST(ImageGridTest, FillsRowsFromTheLeft) {
  std::vector<Image> images(3, Image(1, 1));
  for (int i = 0; i < 3; ++i) *images[i].At(0, 0) = static_cast<uint8_t>(10 * i);
  const Image grid = MakeGrid(images, {/*columns=*/2});
  ASSERT_EQ(grid.width, 2);
  ASSERT_EQ(grid.height, 2);
  EXPECT_EQ(*grid.At(0, 0), 0);
  EXPECT_EQ(*grid.At(1, 0), 10);
  EXPECT_EQ(*grid.At(0, 1), 20);
  EXPECT_EQ(*grid.At(1, 1), 255);
}

TEST(ImageGridTest, SizesAreCheckedBeforeAnythingIsAllocated) {
  EXPECT_TRUE(CheckGrid(16, {64, 64}, {4, 4, 2}).ok());
  const absl::Status wide = CheckGrid(100'000, {64, 64}, {100'000, 4, 2});
  EXPECT_EQ(wide.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wide.message()),
              HasSubstr("a picture of 100000 images, 13200004 x 136 pixels, is larger than"));
  const absl::Status large = CheckGrid(50'000, {4096, 4096}, {200, 4, 1});
  EXPECT_EQ(large.code(), absl::StatusCode::kResourceExhausted) << large;
}

}  // namespace
}  // namespace dpipe
