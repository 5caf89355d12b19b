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

TEST(ImageGridTest, CaptionsAreBelowTheirImages) {
  const std::vector<Image> images(3, Image(12, 6));  // black; two letters per line at zoom 1
  GridLayout layout = {/*columns=*/2, /*margin=*/1};
  layout.captions = {"-", "a bc", "-"};  // two lines
  const Image grid = MakeGrid(images, layout);
  EXPECT_EQ(grid.width, 2 * (12 + 1) + 1);
  ASSERT_EQ(grid.height, 2 * (6 + 2 * 11 + 1) + 1);
  const auto is_black = [&grid](int x, int y) { return *grid.At(x, y) == 0; };
  // A dash is in the fourth row of its line, which begins two pixels below the image.
  for (const int top : {1, 1 + 6 + 22 + 1}) {
    EXPECT_TRUE(is_black(1, top + 5));
    EXPECT_FALSE(is_black(1, top + 6));
    EXPECT_TRUE(is_black(1 + 1, top + 6 + 2 + 3));
    EXPECT_FALSE(is_black(1, top + 6 + 2 + 3)) << "the dash has three pixels";
    EXPECT_FALSE(is_black(1 + 1, top + 6 + 11 + 2 + 3)) << "no second line";
  }
  int second_line = 0;
  for (int x = 14; x < 26; ++x) second_line += is_black(x, 1 + 6 + 11 + 2 + 6);
  EXPECT_EQ(second_line, 4 + 3) << "the lowest rows of b and c";
  // Letters grow with the images: 32 per line.
  layout.zoom = 32;  // 384 pixels per image: twice the size
  EXPECT_EQ(MakeGrid(images, layout).height, 2 * (6 * 32 + 1 * 22 + 1) + 1);
}

TEST(ImageGridTest, LongCaptionsDoNotGrowTheGrid) {
  const std::vector<Image> images(2, Image(64, 64));
  GridLayout layout = {/*columns=*/2, /*margin=*/4, /*zoom=*/2};
  layout.captions = {std::string(1000, 'x'), "a very long caption of many words " +
                                                 std::string("and again ") + "and again and again"};
  const Image grid = MakeGrid(images, layout);
  EXPECT_EQ(grid.height, 2 * 64 + kMaxCaptionLines * 11 + 2 * 4);
  // The ellipsis is the 21st and last letter of the first caption's last line.
  const int y = 4 + 2 * 64 + 2 + 2 * 11 + 6;
  std::string row;
  for (int x = 4 + 20 * 6; x < 4 + 20 * 6 + 5; ++x) row += *grid.At(x, y) == 0 ? '#' : '.';
  EXPECT_EQ(row, "#.#.#");
}

TEST(ImageGridTest, SizesAreCheckedBeforeAnythingIsAllocated) {
  EXPECT_TRUE(CheckGrid(16, {64, 64}, {4, 4, 2}).ok());
  const absl::Status wide = CheckGrid(100'000, {64, 64}, {100'000, 4, 2});
  EXPECT_EQ(wide.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wide.message()),
              HasSubstr("a picture of 100000 images, 13200004 x 136 pixels, is larger than"));
  GridLayout captioned = {1, 4, 2};
  EXPECT_TRUE(CheckGrid(7000, {64, 64}, captioned).ok());
  captioned.captions.assign(7000, "of many words, in more than one line of letters");
  const absl::Status high = CheckGrid(7000, {64, 64}, captioned);
  EXPECT_THAT(std::string(high.message()), HasSubstr("136 x 1155004 pixels, is larger than"));
  const absl::Status large = CheckGrid(50'000, {4096, 4096}, {200, 4, 1});
  EXPECT_EQ(large.code(), absl::StatusCode::kResourceExhausted) << large;
}

}  // namespace
}  // namespace dpipe
