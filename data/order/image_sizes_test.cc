#include "data/order/image_sizes.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "data/folders/folder_dataset.h"
#include "data/images/image_encode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

class ImageSizesTest : public testing::Test {
 protected:
  // Images of 8 x 4, 9 x 4, 10 x 4, ...
  void SetUp() override {
    for (int i = 0; i < 5; ++i) {
      Write(i, 8 + i);
      ASSERT_TRUE(WriteFileAtomically(absl::StrCat(folder_, "/", i, ".txt"), "a").ok());
    }
  }
  void Write(int index, int width) {
    const std::string path = absl::StrCat(folder_, "/", index, ".png");
    ASSERT_TRUE(MakeFolder(folder_).ok());
    ASSERT_TRUE(WriteFileAtomically(path, EncodePng(Image(width, 4)).value()).ok());
    // Times that differ, however coarse the file system's clock is.
    const timespec times[] = {{1'000'000 + num_writes_, 0}, {1'000'000 + num_writes_, 0}};
    ++num_writes_;
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  // Returns the widths as another process finds them, and the number of headers that it reads.
  std::vector<int> Widths(int64_t* num_read = nullptr) {
    const FolderDataset data = FolderDataset::Open(folder_).value();
    ImageSizes sizes(path_);
    std::vector<int> widths;
    for (const auto& size : sizes.Read(data)) {
      widths.push_back(size.ok() ? size->width : -1);
      EXPECT_TRUE(!size.ok() || size->height == 4);
    }
    if (num_read != nullptr) *num_read = sizes.num_read();
    EXPECT_TRUE(sizes.Save().ok());
    return widths;
  }
  int64_t NumRead() {
    int64_t num_read = 0;
    Widths(&num_read);
    return num_read;
  }

  const ScratchFolder scratch_;
  const std::string folder_ = scratch_.path() + "/data", path_ = scratch_.path() + "/sizes";
  int num_writes_ = 0;
};

TEST_F(ImageSizesTest, ASecondStartReadsNoHeader) {
  const std::vector<int> expected = {8, 9, 10, 11, 12};
  EXPECT_EQ(Widths(), expected);
  int64_t num_read = -1;
  EXPECT_EQ(Widths(&num_read), expected);
  EXPECT_EQ(num_read, 0);
}

TEST_F(ImageSizesTest, ChangedImagesAreReadAgain) {
  Widths();
  Write(2, 20);
  int64_t num_read = 0;
  EXPECT_EQ(Widths(&num_read), (std::vector<int>{8, 9, 20, 11, 12}));
  EXPECT_EQ(num_read, 1);
  EXPECT_EQ(NumRead(), 0);
}

// A touched image might be a different one.
TEST_F(ImageSizesTest, ModificationTimeCounts) {
  Widths();
  Write(2, 10);
  EXPECT_EQ(NumRead(), 1);
}

TEST_F(ImageSizesTest, RemovedImagesAreForgotten) {
  Widths();
  const int64_t size = std::filesystem::file_size(path_);
  std::filesystem::remove(folder_ + "/0.png");
  Write(1, 30);  // so that there is something to write
  Widths();
  EXPECT_LT(static_cast<int64_t>(std::filesystem::file_size(path_)), size);
}

TEST_F(ImageSizesTest, DamagedImagesAreReadEachTime) {
  ASSERT_TRUE(WriteFileAtomically(folder_ + "/3.png", "not an image").ok());
  EXPECT_EQ(Widths(), (std::vector<int>{8, 9, 10, -1, 12}));
  EXPECT_EQ(NumRead(), 1);
}

// Truncates or changes every byte. The sizes are right in each case.
TEST_F(ImageSizesTest, DamagedFilesCountAsMissing) {
  const std::vector<int> expected = Widths();
  const std::string whole = ReadFile(path_).value();
  EXPECT_THAT(whole, HasSubstr("dpipe image sizes 1\n"));
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string changed = whole;
    changed[at] ^= 1;
    for (const std::string& text : {whole.substr(0, at), changed}) {
      ASSERT_TRUE(WriteFileAtomically(path_, text).ok());
      int64_t num_read = 0;
      EXPECT_EQ(Widths(&num_read), expected) << at;
      EXPECT_EQ(num_read, 5) << at;
    }
  }
  EXPECT_EQ(ReadFile(path_).value(), whole);
  ASSERT_TRUE(WriteFileAtomically(path_, std::string(1000, '\0') + "{\"a\": [1, 2]}\nend ").ok());
  EXPECT_EQ(Widths(), expected);
}

TEST_F(ImageSizesTest, NothingIsWrittenWithoutAPath) {
  const FolderDataset data = FolderDataset::Open(folder_).value();
  ImageSizes sizes;
  EXPECT_EQ(sizes.Read(data, {4, 1})[0]->width, 12);
  EXPECT_EQ(sizes.Read(data, {4, 1})[1]->width, 9);
  EXPECT_EQ(sizes.num_read(), 2) << "the second time they are known";
  EXPECT_TRUE(sizes.Save().ok());
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ImageSizesTest, AFileThatCannotBeWrittenIsAnError) {
  const FolderDataset data = FolderDataset::Open(folder_).value();
  ImageSizes sizes(folder_ + "/0.png/sizes");
  sizes.Read(data);
  EXPECT_THAT(std::string(sizes.Save().message()), HasSubstr("0.png/sizes"));
}

}  // namespace
}  // namespace dpipe
