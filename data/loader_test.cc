#include "data/loader.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "data/images/image_encode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

constexpr int kSide = 8;
constexpr int kSamplePixels = kSide * kSide * 3;

// The red of image `index` is `index`; green and blue identify columns and rows.
Image Numbered(int index, int width = kSide, int height = kSide) {
  Image image(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.At(x, y)[0] = static_cast<uint8_t>(index);
      image.At(x, y)[1] = static_cast<uint8_t>(x);
      image.At(x, y)[2] = static_cast<uint8_t>(y);
    }
  }
  return image;
}

// Returns the byte that became this float.
int ByteOf(float value) { return static_cast<int>(std::lround((value + 1) * 127.5f)); }

class LoaderTest : public testing::Test {
 protected:
  // Makes `count` images with captions "0", "1", ...; those in `corrupt` cannot be decoded.
  void MakeFolder(int count, const std::set<int>& corrupt, int width = kSide, int height = kSide) {
    scratch_ = std::make_unique<ScratchFolder>();
    folder_ = scratch_->path();
    std::string metadata;
    for (int i = 0; i < count; ++i) {
      const std::string bytes = EncodePng(Numbered(i, width, height)).value();
      Write(absl::StrCat(i, ".png"), corrupt.count(i) > 0 ? bytes.substr(0, 40) : bytes);
      absl::StrAppend(&metadata, "{\"file_name\": \"", i, ".png\", \"text\": \"", i, "\"}\n");
    }
    Write("metadata.jsonl", metadata);
    options_.image_size = kSide;
    options_.global_batch = 4;
    options_.seed = 11;
  }
  void Write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteFileAtomically(absl::StrCat(folder_, "/", name), content).ok());
  }
  std::unique_ptr<DataLoader> Load() {
    return DataLoader::Create(FolderDataset::Open(folder_).value(), options_).value();
  }
  static std::vector<float> Pixels(DataLoader& loader, int64_t step, SampleRange samples) {
    std::vector<float> pixels(samples.size() * kSamplePixels);
    const absl::Status status = loader.LoadPixels(step, samples, pixels.data());
    EXPECT_TRUE(status.ok()) << status;
    return pixels;
  }

  std::unique_ptr<ScratchFolder> scratch_;
  std::string folder_;
  DataLoaderOptions options_;
};

TEST_F(LoaderTest, PixelsAndCaptionsFollowTheOrder) {
  MakeFolder(10, {});
  const auto loader = Load();
  for (int64_t step = 0; step < 8; ++step) {  // across three epochs
    const std::vector<float> pixels = Pixels(*loader, step, {0, 4});
    const auto captions = loader->Captions(step, {0, 4});
    ASSERT_TRUE(captions.ok()) << captions.status();
    for (int i = 0; i < 4; ++i) {
      const int64_t position = step * 4 + i;
      const int expected = EpochOrder(11, position / 10, 10)[position % 10];
      EXPECT_EQ((*captions)[i], absl::StrCat(expected));
      const float* sample = &pixels[i * kSamplePixels];
      EXPECT_EQ(ByteOf(sample[0]), expected);
      // Height, then width, then colour.
      EXPECT_EQ(ByteOf(sample[(3 * kSide + 5) * 3 + 1]), 5);
      EXPECT_EQ(ByteOf(sample[(3 * kSide + 5) * 3 + 2]), 3);
    }
  }
}

// As in a run that resumes with other data at step 5.
TEST_F(LoaderTest, LaterOrderUsesItsOwnSeed) {
  MakeFolder(10, {2});
  options_.random_flip = options_.random_crop = true;
  options_.first_step = 5;
  const auto later = Load();
  EXPECT_THAT(std::string(later->Indices(4, {0, 4}).status().message()),
              HasSubstr("step 4 is before the first step of the order, 5"));
  options_.first_step = 0;
  options_.seed = OrderSeed(options_.seed, 5);
  const auto fresh = Load();
  std::vector<int32_t> indices;
  for (int64_t step = 0; step < 8; ++step) {
    EXPECT_EQ(later->Indices(step + 5, {0, 4}).value(), fresh->Indices(step, {0, 4}).value());
    EXPECT_EQ(later->Captions(step + 5, {1, 3}).value(), fresh->Captions(step, {1, 3}).value());
  }
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

TEST_F(LoaderTest, AStepIsDecodedAsAWhole) {
  MakeFolder(10, {1, 4, 5});
  options_.prefetch_threads = 0;
  const auto loader = Load();
  ASSERT_TRUE(loader->Decode(0).ok());
  const std::vector<int32_t> indices = loader->Indices(0, {0, 4}).value();
  const std::set<int32_t> images(indices.begin(), indices.end());
  EXPECT_EQ(loader->cached_bytes(), static_cast<int64_t>(images.size()) * kSamplePixels);
  for (int i = 0; i < 10; ++i) unlink(absl::StrCat(folder_, "/", i, ".png").c_str());
  const std::vector<float> pixels = Pixels(*loader, 0, {0, 4});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ByteOf(pixels[i * kSamplePixels]), indices[i]);
}

TEST_F(LoaderTest, DecodeRefusesWhatLoadRefuses) {
  MakeFolder(3, {0, 1, 2});
  const absl::Status decoded = Load()->Decode(0);
  EXPECT_EQ(decoded.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(decoded.message(), Load()->LoadPixels(0, {0, 4}, nullptr).message());
  MakeFolder(10, {1, 4, 5});
  options_.max_corrupt = 2;
  options_.global_batch = 10;
  EXPECT_THAT(std::string(Load()->Decode(0).message()), HasSubstr("more than the limit of 2"));
}

// Sizes come from the given cache.
TEST_F(LoaderTest, KnownSizesAreNotReadAgain) {
  MakeFolder(10, {});
  options_.buckets = {{16, 8}, {8, 8}};
  ImageSizes sizes;
  options_.sizes = &sizes;
  Load();
  EXPECT_EQ(sizes.num_read(), 10);
  EXPECT_EQ(Load()->image_sizes()[9].width, kSide);
  EXPECT_EQ(sizes.num_read(), 10);
}

TEST_F(LoaderTest, BytesBecomeMinusOneToOne) {
  MakeFolder(1, {});
  Image image(kSide, kSide);
  image.At(1, 0)[0] = 255;
  Write("0.png", EncodePng(image).value());
  options_.global_batch = 1;
  const auto loader = Load();
  const std::vector<float> pixels = Pixels(*loader, 0, {0, 1});
  EXPECT_EQ(pixels[0], -1.0f);
  EXPECT_EQ(pixels[3], 1.0f);
}

TEST_F(LoaderTest, OrderOfRequestsDoesNotMatter) {
  MakeFolder(10, {2, 5}, 12, 10);
  options_.random_crop = options_.random_flip = true;
  std::vector<float> whole;
  {
    const auto loader = Load();
    for (int64_t step = 0; step < 6; ++step) {
      const std::vector<float> pixels = Pixels(*loader, step, {0, 4});
      whole.insert(whole.end(), pixels.begin(), pixels.end());
    }
  }
  // Four ranks with one sample each, in descending steps, all at once, with a small cache.
  options_.cache_bytes = 500;
  options_.prefetch_threads = 2;
  const auto loader = Load();
  std::vector<float> parts(whole.size());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int64_t step = 5; step >= 0; --step) {
        const std::vector<float> pixels = Pixels(*loader, step, {rank, rank + 1});
        std::copy(pixels.begin(), pixels.end(), parts.begin() + (step * 4 + rank) * kSamplePixels);
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(parts, whole);
}

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

TEST_F(LoaderTest, CorruptSamplesAreReplacedByTheNextGoodOne) {
  const std::set<int> corrupt = {1, 4, 5};
  MakeFolder(10, corrupt);
  const auto loader = Load();
  for (int64_t step = 0; step < 10; ++step) {
    const auto indices = loader->Indices(step, {0, 4});
    ASSERT_TRUE(indices.ok()) << indices.status();
    for (int i = 0; i < 4; ++i) {
      int64_t position = step * 4 + i;
      const auto order = EpochOrder(11, position / 10, 10);
      int place = position % 10;
      while (corrupt.count(order[place]) > 0) place = (place + 1) % 10;
      EXPECT_EQ((*indices)[i], order[place]);
    }
  }
  const auto quarantine = loader->Quarantine();
  ASSERT_EQ(quarantine.size(), 3u);
  EXPECT_EQ(quarantine[1].index, 4);
  EXPECT_THAT(quarantine[1].path, HasSubstr("/4.png"));
  EXPECT_THAT(quarantine[1].reason, HasSubstr("corrupt PNG"));
}

TEST_F(LoaderTest, TooManyCorruptSamplesAreAnError) {
  MakeFolder(10, {1, 4, 5});
  options_.max_corrupt = 2;
  const auto loader = Load();
  absl::Status status;
  for (int64_t step = 0; step < 3 && status.ok(); ++step) {
    status = loader->Indices(step, {0, 4}).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("3 images of 10 cannot be decoded, more than the limit of 2; one of them: "));
}

TEST_F(LoaderTest, TheLimitMayBeAShare) {
  MakeFolder(10, {1, 4, 5});
  options_.max_corrupt_share = 0.25;
  {
    const auto loader = Load();
    absl::Status status;
    for (int64_t step = 0; step < 3 && status.ok(); ++step) {
      status = loader->Indices(step, {0, 4}).status();
    }
    EXPECT_THAT(std::string(status.message()), HasSubstr("more than the limit of 2"));
  }
  options_.max_corrupt_share = 0.3;
  const auto loader = Load();
  for (int64_t step = 0; step < 10; ++step) EXPECT_TRUE(loader->Indices(step, {0, 4}).ok());
}

// A later run skips the files that an earlier one found, even if they are readable again.
TEST_F(LoaderTest, QuarantineOutlivesTheRun) {
  MakeFolder(10, {1, 4});
  options_.quarantine_path = folder_ + "/quarantine.jsonl";
  std::vector<int32_t> before, after;
  const auto run = [&](std::vector<int32_t>* indices) {
    const auto loader = Load();
    for (int64_t step = 0; step < 5; ++step) {
      const std::vector<int32_t> found = loader->Indices(step, {0, 4}).value();
      indices->insert(indices->end(), found.begin(), found.end());
    }
  };
  run(&before);
  EXPECT_THAT(ReadFile(options_.quarantine_path).value(), HasSubstr("/4.png: corrupt PNG"));
  const std::string log = ReadFile(options_.quarantine_path).value();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2);
  Write("4.png", EncodePng(Numbered(4)).value());
  run(&after);
  EXPECT_EQ(after, before);
  EXPECT_EQ(ReadFile(options_.quarantine_path).value(), log);
  options_.max_corrupt = 1;
  EXPECT_THAT(
      std::string(
          DataLoader::Create(FolderDataset::Open(folder_).value(), options_).status().message()),
      HasSubstr("2 images of 10 cannot be decoded, more than the limit of 1"));
}

// Images of three shapes, each used whole in a step of its bucket.
TEST_F(LoaderTest, BucketsHaveStepsOfTheirOwn) {
  MakeFolder(15, {});
  const ImageSize shapes[] = {{32, 16}, {16, 16}, {16, 32}};
  for (int i = 0; i < 15; ++i) {
    Write(absl::StrCat(i, ".png"),
          EncodePng(Numbered(i, shapes[i % 3].width, shapes[i % 3].height)).value());
  }
  Write("7.png", "not an image");
  options_.buckets = {{16, 8}, {8, 8}, {8, 16}};
  std::map<int32_t, int> seen;
  const auto loader = Load();
  EXPECT_EQ(loader->Quarantine().size(), 1u) << "found by its header";
  for (int64_t step = 0; step < 15; ++step) {
    const ImageSize size = loader->SizeOf(step);
    std::vector<float> pixels(4 * size.width * size.height * 3);
    ASSERT_TRUE(loader->LoadPixels(step, {0, 4}, pixels.data()).ok());
    const auto indices = loader->Indices(step, {0, 4}).value();
    for (int i = 0; i < 4; ++i) {
      ++seen[indices[i]];
      EXPECT_NE(indices[i], 7);
      EXPECT_EQ(shapes[indices[i] % 3].width, 2 * size.width);
      EXPECT_EQ(shapes[indices[i] % 3].height, 2 * size.height);
      // Each pixel is the mean of about two source columns and rows.
      const float* last = &pixels[(i + 1) * size.width * size.height * 3 - 3];
      EXPECT_EQ(ByteOf(last[0]), indices[i]);
      EXPECT_NEAR(ByteOf(last[1]), 2 * size.width - 1.5, 1);
      EXPECT_NEAR(ByteOf(last[2]), 2 * size.height - 1.5, 1);
      // One rank's part is the same.
      std::vector<float> part(size.width * size.height * 3);
      ASSERT_TRUE(loader->LoadPixels(step, {i, i + 1}, part.data()).ok());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), pixels.begin() + i * part.size()));
    }
  }
  std::vector<std::pair<int, int>> in_use;
  for (const DataLoader::SizeInUse& use : loader->SizesInUse()) {
    in_use.push_back({use.size.width, use.size.height});
    for (int64_t step = 0; step <= use.first_step; ++step) {
      const ImageSize size = loader->SizeOf(step);
      EXPECT_EQ(size.width == use.size.width && size.height == use.size.height,
                step == use.first_step);
    }
  }
  EXPECT_EQ(in_use, (std::vector<std::pair<int, int>>{{16, 8}, {8, 8}, {8, 16}}));
  EXPECT_EQ(loader->StepsToSeeAll(), 7) << "two epochs of buckets of 6, 4 and 5";
  // Four epochs of fifteen samples. The bad sample was in the first bucket, the largest, and others
  // of that bucket replaced it.
  EXPECT_EQ(seen.size(), 14u);
  for (const auto& [index, times] : seen) {
    EXPECT_GE(times, 4) << index;
    EXPECT_TRUE(times == 4 || index % 3 == 0) << index;
  }
}

// Contains the path and the faulty file, each once.
TEST_F(LoaderTest, SkippedSamplesNameTheirPathOnce) {
  MakeFolder(3, {1});
  unlink(absl::StrCat(folder_, "/2.png").c_str());
  const auto loader = Load();
  EXPECT_EQ(loader->Indices(0, {0, 4}).value(), (std::vector<int32_t>{0, 0, 0, 0}));
  const auto quarantine = loader->Quarantine();
  ASSERT_EQ(quarantine.size(), 2u);
  for (const QuarantinedSample& sample : quarantine) {
    const std::string text = sample.ToString();
    const size_t at = text.find(sample.path);
    EXPECT_NE(at, std::string::npos) << text;
    EXPECT_EQ(text.find(sample.path, at + 1), std::string::npos) << text;
  }
  EXPECT_EQ((QuarantinedSample{0, "/a.png", "/a.cond.png: empty"}).ToString(),
            "/a.png: /a.cond.png: empty");
}

// A sample that was readable, is evicted, and then becomes unreadable. Its caption is that of its
// substitute, like its pixels.
TEST_F(LoaderTest, CaptionsAreThoseOfSubstitutes) {
  MakeFolder(6, {});
  options_.global_batch = 6;
  options_.cache_bytes = 0;
  options_.prefetch_threads = 0;
  const auto loader = Load();
  const std::vector<int32_t> before = loader->Indices(0, {0, 6}).value();
  Write(absl::StrCat(before[2], ".png"), "damaged");
  const std::vector<float> pixels = Pixels(*loader, 0, {0, 6});
  const auto captions = loader->Captions(0, {0, 6});
  ASSERT_TRUE(captions.ok()) << captions.status();
  for (int i = 0; i < 6; ++i) {
    const int32_t expected = i == 2 ? before[3] : before[i];
    EXPECT_EQ(ByteOf(pixels[i * kSamplePixels]), expected) << i;
    EXPECT_EQ((*captions)[i], absl::StrCat(expected)) << i;
  }
}

TEST_F(LoaderTest, OnlyCorruptSamplesIsAnError) {
  MakeFolder(3, {0, 1, 2});
  const auto loader = Load();
  EXPECT_THAT(std::string(loader->Captions(0, {0, 1}).status().message()),
              HasSubstr("none of its 3 images can be decoded"));
}

// Each condition picture is its image with inverted bytes.
TEST_F(LoaderTest, ConditionsFollowTheirImages) {
  MakeFolder(6, {}, 24, 16);
  std::string metadata;
  for (int i = 0; i < 6; ++i) {
    Image condition = Numbered(i, 24, 16);
    for (uint8_t& byte : condition.pixels) byte = 255 - byte;
    Write(absl::StrCat("c", i, ".png"), EncodePng(condition).value());
    absl::StrAppend(&metadata, "{\"file_name\": \"", i, ".png\", \"text\": \"", i,
                    "\", \"conditioning_image\": \"c", i, ".png\"}\n");
  }
  Write("metadata.jsonl", metadata);
  options_.random_crop = options_.random_flip = options_.with_conditions = true;
  const auto loader = Load();
  for (int64_t step = 0; step < 6; ++step) {
    const std::vector<float> pixels = Pixels(*loader, step, {0, 4});
    std::vector<float> conditions(pixels.size());
    ASSERT_TRUE(loader->LoadConditions(step, {0, 4}, conditions.data()).ok());
    for (size_t i = 0; i < pixels.size(); ++i) {
      EXPECT_GE(conditions[i], 0.0f);
      EXPECT_NEAR(1 - conditions[i], (pixels[i] + 1) / 2, 1.01 / 255);
    }
  }
}

TEST_F(LoaderTest, MissingConditionsAreNamed) {
  MakeFolder(2, {});
  EXPECT_EQ(Load()->LoadConditions(0, {0, 1}, nullptr).code(),
            absl::StatusCode::kFailedPrecondition);
  options_.with_conditions = true;
  const auto status = DataLoader::Create(FolderDataset::Open(folder_).value(), options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/0.png has no condition picture"));
}

// Each time that a sample occurs, one of its captions is drawn by seed, step and place alone, so
// that a resumed run draws the same.
TEST_F(LoaderTest, OneOfSeveralCaptionsIsDrawnPerEpoch) {
  MakeFolder(4, {});
  std::string metadata;
  for (int i = 0; i < 4; ++i) {
    const std::string texts = i == 3 ? "\"3 a\"" : absl::StrCat("[\"", i, " a\", \"", i, " b\"]");
    absl::StrAppend(&metadata, "{\"file_name\": \"", i, ".png\", \"text\": ", texts, "}\n");
  }
  Write("metadata.jsonl", metadata);
  const auto captions = [&](const std::vector<int64_t>& steps) {
    const auto loader = DataLoader::Create(FolderDataset::Open(folder_).value(), options_);
    std::map<int64_t, std::vector<std::string>> found;
    for (const int64_t step : steps) {
      // Each rank asks for its own sample.
      for (int i = 0; i < options_.global_batch; ++i) {
        found[step].push_back((*loader)->Captions(step, {i, i + 1})->front());
      }
      EXPECT_EQ((*loader)->Captions(step, {0, options_.global_batch}).value(), found[step]);
    }
    return found;
  };
  constexpr int kEpochs = 40;  // one step each
  std::vector<int64_t> steps(kEpochs);
  for (int i = 0; i < kEpochs; ++i) steps[i] = i;
  const auto all = captions(steps);
  std::map<std::string, int> counts;
  for (const auto& [step, drawn] : all) {
    for (const std::string& caption : drawn) ++counts[caption];
  }
  EXPECT_EQ(counts["3 a"], kEpochs);
  for (int i = 0; i < 3; ++i) {
    const int count_of_a = counts[absl::StrCat(i, " a")];
    EXPECT_EQ(count_of_a + counts[absl::StrCat(i, " b")], kEpochs);
    EXPECT_GT(count_of_a, kEpochs / 4);
    EXPECT_LT(count_of_a, kEpochs * 3 / 4);
  }
  const auto later = captions({27, 31});
  EXPECT_EQ(later.at(27), all.at(27));
  EXPECT_EQ(later.at(31), all.at(31));
  ++options_.seed;
  EXPECT_NE(captions(steps), all);
}

TEST_F(LoaderTest, SamplesWithBadConditionsAreSkipped) {
  MakeFolder(3, {});
  Write("metadata.jsonl",
        R"({"file_name": "0.png", "text": "0", "conditioning_image": "0.png"})"
        "\n"
        R"({"file_name": "1.png", "text": "1", "conditioning_image": "metadata.jsonl"})"
        "\n"
        R"({"file_name": "2.png", "text": "2", "conditioning_image": "wide.png"})");
  Write("wide.png", EncodePng(Image(40, 8)).value());
  options_.with_conditions = true;
  const auto loader = Load();
  EXPECT_EQ(loader->Indices(0, {0, 3}).value(), (std::vector<int32_t>{0, 0, 0}));
  const auto quarantine = loader->Quarantine();
  ASSERT_EQ(quarantine.size(), 2u);
  EXPECT_THAT(quarantine[0].reason, HasSubstr("metadata.jsonl: JSON text, not a JPEG"));
  EXPECT_THAT(quarantine[1].reason, HasSubstr("8 x 8, its condition picture 40 x 8"));
}

TEST_F(LoaderTest, DecodesAhead) {
  MakeFolder(40, {});
  options_.prefetch_steps = 3;
  const auto loader = Load();
  Pixels(*loader, 0, {0, 2});
  loader->WaitForPrefetch();
  EXPECT_EQ(loader->cached_bytes(), 2 * (1 + 3) * kSamplePixels);
  // Prefetched images do not need their files.
  std::vector<float> before = Pixels(*loader, 1, {0, 2});
  for (int i = 0; i < 40; ++i) unlink(absl::StrCat(folder_, "/", i, ".png").c_str());
  EXPECT_EQ(Pixels(*loader, 1, {0, 2}), before);
}

TEST_F(LoaderTest, ImpossibleOptionsAndRangesAreNamed) {
  MakeFolder(3, {});
  const auto loader = Load();
  const absl::Status status = loader->LoadPixels(0, {2, 5}, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("samples [2, 5) of step 0 are not within the global batch of 4 "
                        "samples (--global_batch)"));
  EXPECT_FALSE(loader->Captions(-1, {0, 1}).ok());
  options_.global_batch = 0;
  EXPECT_THAT(
      std::string(
          DataLoader::Create(FolderDataset::Open(folder_).value(), options_).status().message()),
      HasSubstr("global_batch is 0"));
}

}  // namespace
}  // namespace dpipe
