#include "data/folders/sidecar_files.h"

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SidecarFilesTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content = "x") {
    const std::string path = absl::StrCat(folder_, "/", name);
    ASSERT_TRUE(MakeParentFolder(path).ok());
    ASSERT_TRUE(WriteFileAtomically(path, content).ok());
  }
  absl::StatusOr<SidecarFiles> Find(const std::optional<std::string>& default_caption = {}) {
    return FindSidecarFiles(folder_, ListFolder(folder_).value(), default_caption);
  }
  std::string Error() { return std::string(Find().status().message()); }
  const ScratchFolder scratch_;
  const std::string& folder_ = scratch_.path();
};

TEST_F(SidecarFilesTest, GoesThroughSubFolders) {
  for (const char* name : {"cats/2", "b", "cats/young/1"}) {
    Write(absl::StrCat(name, ".png"));
    Write(absl::StrCat(name, ".txt"), absl::StrCat("of ", name));
  }
  Write("cats/2.cond.png");
  Write("._b.png");
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<std::string> images, captions, conditions;
  for (const SidecarSample& sample : found->samples) {
    images.push_back(sample.image);
    captions.push_back(sample.caption);
    conditions.push_back(sample.condition);
  }
  EXPECT_THAT(images, ElementsAre("b.png", "cats/2.png", "cats/young/1.png"));
  EXPECT_THAT(captions, ElementsAre("of b", "of cats/2", "of cats/young/1"));
  EXPECT_THAT(conditions, ElementsAre("", "cats/2.cond.png", ""));
  EXPECT_THAT(found->notes, ElementsAre("2 of the 3 images are in sub-folders",
                                        HasSubstr("ignored: 1 whose names begin with a dot")));
}

TEST_F(SidecarFilesTest, NoNotesIfEverythingIsRead) {
  for (const char* name : {"a.jpg", "a.png", "a.txt", "a.cond.png"}) Write(name);
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->samples.size(), 2u);
  EXPECT_THAT(found->notes, IsEmpty());
}

TEST_F(SidecarFilesTest, CountsIgnoredFiles) {
  for (const char* name : {"a.jpg", "a.txt", "b.txt", "1.gif", "sub/2.GIF", "c.bmp", "readme"}) {
    Write(name);
  }
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->notes,
              ElementsAre("ignored: 2 .gif, 1 .bmp, 1 .txt, 1 without an extension; JPEG, PNG and "
                          "WebP images are read, and .txt or .caption files of the same names"));
}

TEST_F(SidecarFilesTest, ErrorsNameTheExpectedFiles) {
  Write("1.gif");
  EXPECT_THAT(Error(), AllOf(HasSubstr("neither metadata.jsonl nor metadata.csv nor any JPEG, PNG "
                                       "or WebP image; ignored: 1 .gif")));
  for (int i = 0; i < 7; ++i) Write(absl::StrCat(i, ".jpg"));
  Write("3.txt");
  EXPECT_THAT(Error(), AllOf(HasSubstr("6 of its 7 images have no caption: 0.jpg (no 0.txt), "),
                             HasSubstr("5.jpg (no 5.txt), .... Captions are expected in a .txt "
                                       "or .caption file of the same name beside each image"),
                             Not(HasSubstr("3.jpg")), Not(HasSubstr("6.jpg")),
                             HasSubstr("--data.default_caption=TEXT")));
  Write("3.txt", std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(Error(), AllOf(HasSubstr("7 of its 7"), HasSubstr("3.jpg (")));
}

TEST_F(SidecarFilesTest, CaptionFilesHaveSeveralNames) {
  for (const char* image : {"a.png", "b.png", "c.png", "d.png", "e.jpg", "e.png"}) Write(image);
  Write("a.caption", "of a");
  Write("b.png.txt", "of b");
  Write("c.png.caption", "of c");
  // The first one is used, and the other is reported as ignored.
  Write("d.txt", "of d");
  Write("d.caption", "other");
  Write("e.jpg.txt", "of e.jpg");
  Write("e.png.txt", "of e.png");
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  std::vector<std::string> captions;
  for (const SidecarSample& sample : found->samples) captions.push_back(sample.caption);
  EXPECT_THAT(captions, ElementsAre("of a", "of b", "of c", "of d", "of e.jpg", "of e.png"));
  EXPECT_THAT(found->notes, ElementsAre(HasSubstr("ignored: 1 .caption;")));
}

TEST_F(SidecarFilesTest, CaptionsInOtherEncodingsAreReadOrCounted) {
  for (const char* image : {"a.png", "b.png", "c.png"}) Write(image);
  Write("a.txt", std::string("\xff\xfe"
                             "a\0 \0r\0e\0d\0",
                             12));
  Write("b.txt", "a cat\x92s tail");
  Write("c.txt", "caf\u00e9");
  const auto found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->samples[0].caption, "a red");
  EXPECT_EQ(found->samples[1].caption, "a cat\ufffds tail");
  EXPECT_EQ(found->samples[2].caption, "caf\u00e9");
  EXPECT_THAT(found->notes,
              ElementsAre("1 caption is not UTF-8, and invalid bytes were replaced by U+FFFD; "
                          "save as UTF-8: b.txt"));
}

TEST_F(SidecarFilesTest, DefaultCaptionMayBeGiven) {
  Write("a.jpg");
  Write("b.jpg");
  Write("b.txt", "own");
  const auto found = Find("given");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->samples[0].caption, "given");
  EXPECT_TRUE(found->samples[0].has_default_caption);
  EXPECT_EQ(found->samples[1].caption, "own");
  EXPECT_FALSE(found->samples[1].has_default_caption);
}

}  // namespace
}  // namespace dpipe
