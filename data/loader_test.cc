#include "data/loader.h"

#include <map>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "data/images/image_encode.h"
#include "data/testing/loader_fixture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

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
