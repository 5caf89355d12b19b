// Tests which part of its picture a sample is: crops, flips, patches, resizing.
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/testing/loader_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

TEST_F(LoaderTest, CropAndFlipVaryWithStepAndSample) {
  MakeFolder(1, {}, 20, 8);
  options_.random_crop = options_.random_flip = true;
  options_.global_batch = 8;
  const auto loader = Load();
  std::set<std::pair<int, int>> ends;  // columns of the first and last pixel of the first row
  for (int64_t step = 0; step < 20; ++step) {
    const std::vector<float> pixels = Pixels(*loader, step, {0, 8});
    for (int i = 0; i < 8; ++i) {
      const float* sample = &pixels[i * kSamplePixels];
      ends.insert({ByteOf(sample[1]), ByteOf(sample[(kSide - 1) * 3 + 1])});
    }
  }
  // Thirteen positions, each with and without a flip.
  EXPECT_GE(ends.size(), 24u);
  for (const auto& [first, last] : ends) EXPECT_EQ(std::abs(first - last), kSide - 1);
}

// A patch equals the same part of the whole picture, cropped and flipped.
TEST_F(LoaderTest, PatchesArePartsOfTheirPictures) {
  constexpr int kWhole = 16;
  MakeFolder(6, {}, 24, 20);
  options_.image_size = kWhole;
  options_.random_crop = options_.random_flip = true;
  const auto loader = Load();
  options_.patches = {{kWhole, 0.4}, {8, 0.6}};
  const auto patched = Load();
  std::set<int> sides;
  for (int64_t step = 0; step < 12; ++step) {
    const int side = patched->SizeOf(step).width;
    sides.insert(side);
    std::vector<float> whole(4 * kWhole * kWhole * 3), part(4 * side * side * 3);
    ASSERT_TRUE(loader->LoadPixels(step, {0, 4}, whole.data()).ok());
    ASSERT_TRUE(patched->LoadPixels(step, {0, 4}, part.data()).ok());
    for (int i = 0; i < 4; ++i) {
      const Patch patch = patched->PatchOf(step, i);
      ASSERT_EQ(patch.size.width, side);
      for (int y = 0; y < side; ++y) {
        const int row = (i * kWhole + patch.top + y) * kWhole + patch.left;
        for (int x = 0; x < 3 * side; ++x) {
          ASSERT_EQ(part[(i * side + y) * side * 3 + x], whole[row * 3 + x]) << step << " " << i;
        }
      }
    }
  }
  EXPECT_EQ(sides, (std::set<int>{8, kWhole}));
  const auto sizes = patched->SizesInUse();
  ASSERT_EQ(sizes.size(), 2u);
  for (const auto& use : sizes) EXPECT_EQ(patched->SizeOf(use.first_step).width, use.size.width);
}

TEST_F(LoaderTest, PatchesOfBucketsAreRefused) {
  MakeFolder(4, {});
  options_.patches = {{kSide, 1}};
  options_.buckets = {{kSide, kSide}};
  const auto status = DataLoader::Create(FolderDataset::Open(folder_).value(), options_).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 buckets and 1 sizes of patches"));
}

// Green and blue of a sample's first pixel are its column and row in the picture.
TEST_F(LoaderTest, CropsAreThoseOfThePixels) {
  MakeFolder(6, {}, /*width=*/20, /*height=*/8);
  options_.random_crop = options_.random_flip = true;
  const auto loader = Load();
  std::set<int> lefts;
  for (int64_t step = 0; step < 6; ++step) {
    const auto crops = loader->Crops(step, {0, 4});
    ASSERT_TRUE(crops.ok()) << crops.status();
    const std::vector<float> pixels = Pixels(*loader, step, {0, 4});
    for (int i = 0; i < 4; ++i) {
      const SampleCrop& crop = (*crops)[i];
      const int first = ByteOf(pixels[i * kSamplePixels + 1]);
      const int second = ByteOf(pixels[i * kSamplePixels + 4]);
      EXPECT_EQ(crop.left, second > first ? first : 19 - first)
          << "flipped if the order is reversed";
      EXPECT_EQ(crop.top, ByteOf(pixels[i * kSamplePixels + 2]));
      EXPECT_EQ(crop.original.width, 20);
      EXPECT_EQ(crop.original.height, 8);
      EXPECT_EQ(crop.size.width, kSide);
      EXPECT_EQ(crop.size.height, kSide);
      lefts.insert(crop.left);
    }
  }
  EXPECT_GT(lefts.size(), 5);
}

// The sample is where it is in the whole picture as resized, even if a strip was shortened first.
TEST_F(LoaderTest, CropsOfResizedPictures) {
  const auto crop_of = [this](int width, int height) {
    MakeFolder(4, {}, width, height);
    return Load()->Crops(0, {0, 1}).value()[0];
  };
  const SampleCrop wide = crop_of(40, 16);  // becomes 20 x 8
  EXPECT_EQ(wide.original.width, 40);
  EXPECT_EQ(wide.left, 6);
  const SampleCrop strip = crop_of(200, 16);  // becomes 100 x 8, of which 32 x 8 are kept
  EXPECT_EQ(strip.left, 46);
  EXPECT_EQ(strip.top, 0);
  const SampleCrop tall = crop_of(16, 200);
  EXPECT_EQ(tall.left, 0);
  EXPECT_EQ(tall.top, 46);
}

TEST_F(LoaderTest, CentreIsTheDefaultCrop) {
  MakeFolder(1, {}, 20, 8);
  options_.global_batch = 1;
  const auto loader = Load();
  EXPECT_EQ(ByteOf(Pixels(*loader, 0, {0, 1})[1]), 6);  // (20 - 8) / 2
}

TEST_F(LoaderTest, LargerImagesAreResizedByTheShortSide) {
  MakeFolder(1, {}, 64, 32);
  options_.global_batch = 1;
  const auto loader = Load();
  const std::vector<float> pixels = Pixels(*loader, 0, {0, 1});
  // 16 x 8, cropped to columns 4 to 11. Each covers four source columns, the first one 16 to 19.
  EXPECT_NEAR(ByteOf(pixels[1]), 17.5, 1);
  EXPECT_NEAR(ByteOf(pixels[(kSide - 1) * 3 + 1]), 45.5, 1);
}

TEST_F(LoaderTest, AStripOfPixelsStaysSmall) {
  MakeFolder(1, {}, 4000, 1);
  options_.global_batch = 1;
  const auto loader = Load();
  EXPECT_EQ(ByteOf(Pixels(*loader, 0, {0, 1})[0]), 0);
  EXPECT_LE(loader->cached_bytes(), 4 * kSamplePixels);
}

TEST_F(LoaderTest, PatchesOfALaterOrderDependOnTheStep) {
  MakeFolder(6, {});
  options_.image_size = 16;
  options_.patches = {{16, 0.5}, {8, 0.5}};
  const auto whole = Load();
  options_.first_step = 9;
  const auto later = Load();
  for (int64_t step = 9; step < 20; ++step) {
    EXPECT_EQ(later->SizeOf(step).width, whole->SizeOf(step).width);
  }
  for (const auto& use : later->SizesInUse()) {
    EXPECT_GE(use.first_step, 9);
    EXPECT_EQ(later->SizeOf(use.first_step).width, use.size.width);
  }
}

}  // namespace
}  // namespace dpipe
