// A folder of small numbered pictures, and loaders of it, for tests.
#ifndef DPIPE_DATA_TESTING_LOADER_FIXTURE_H_
#define DPIPE_DATA_TESTING_LOADER_FIXTURE_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "data/images/image_encode.h"
#include "data/loader.h"
#include "gtest/gtest.h"

namespace dpipe {

inline constexpr int kSide = 8;
inline constexpr int kSamplePixels = kSide * kSide * 3;

// The red of image `index` is `index`; green and blue identify columns and rows.
inline Image Numbered(int index, int width = kSide, int height = kSide) {
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
inline int ByteOf(float value) { return static_cast<int>(std::lround((value + 1) * 127.5f)); }

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

}  // namespace dpipe

#endif  // DPIPE_DATA_TESTING_LOADER_FIXTURE_H_
