#include "data/order/small_images.h"

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

class SmallImagesTest : public testing::Test {
 protected:
  void Write(const std::string& stem, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomically(absl::StrCat(scratch_.path(), "/", stem, ".png"), bytes).ok());
    ASSERT_TRUE(WriteFileAtomically(absl::StrCat(scratch_.path(), "/", stem, ".txt"), stem).ok());
  }
  absl::StatusOr<FilteredSource> Filter(int min_side) {
    ImageSizes sizes;
    auto data = std::make_unique<FolderDataset>(FolderDataset::Open(scratch_.path()).value());
    return FilterSmallImages(std::move(data), min_side, &sizes);
  }

  const ScratchFolder scratch_;
};

TEST_F(SmallImagesTest, TheShorterSideCounts) {
  Write("a", EncodePng(Image(100, 7)).value());
  Write("b", EncodePng(Image(8, 8)).value());
  Write("c", EncodePng(Image(7, 9)).value());
  Write("d", "not an image");
  const auto filtered = Filter(8);
  ASSERT_TRUE(filtered.ok()) << filtered.status();
  ASSERT_EQ(filtered->source->size(), 2);
  EXPECT_THAT(filtered->source->image_path(0), HasSubstr("/b.png"));
  EXPECT_THAT(filtered->source->image_path(1), HasSubstr("/d.png")) << "skipped and reported later";
  EXPECT_EQ(filtered->note,
            "2 of the 4 images have a side below --data.min_side=8: a.png of 100 x 7, c.png of 7 x "
            "9; left out");
}

TEST_F(SmallImagesTest, ManyAreCountedAndSomeNamed) {
  for (int i = 0; i < 30; ++i) {
    Write(absl::StrCat(i + 10, std::string(200, 'x')), EncodePng(Image(1, 1)).value());
  }
  EXPECT_THAT(std::string(Filter(2).status().message()), HasSubstr("30 of the 30 images have"));
  Write("large", EncodePng(Image(2, 2)).value());
  const std::string note = Filter(2)->note;
  EXPECT_THAT(note, HasSubstr("30 of the 31 images have a side below"));
  EXPECT_THAT(note, HasSubstr(" and 27 more; left out"));
  EXPECT_LT(note.size(), 300u);
}

// A resumed run recognises its data set by the fingerprint.
TEST_F(SmallImagesTest, DataSetIsUnchangedIfNoImageIsSmall) {
  Write("a", EncodePng(Image(8, 8)).value());
  const auto filtered = Filter(8);
  ASSERT_TRUE(filtered.ok()) << filtered.status();
  EXPECT_EQ(filtered->note, "");
  EXPECT_EQ(filtered->source->fingerprint(), FolderDataset::Open(scratch_.path())->fingerprint());
}

}  // namespace
}  // namespace dpipe
