#include "data/folder_dataset.h"

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/philox.h"
#include "core/base/scratch_folder.h"
#include "data/image_encode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::HasSubstr;

class FolderDatasetTest : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteFileAtomically(absl::StrCat(folder_, "/", name), content).ok());
  }
  void WriteImage(const std::string& name) { Write(name, EncodePng(Image(4, 4)).value()); }
  std::string OpenError() {
    const auto dataset = FolderDataset::Open(folder_);
    return dataset.ok() ? "no error" : std::string(dataset.status().message());
  }
  const ScratchFolder scratch_;
  const std::string& folder_ = scratch_.path();
};

TEST_F(FolderDatasetTest, ReadsMetadataInItsOrder) {
  ASSERT_TRUE(MakeFolder(folder_ + "/sub").ok());
  WriteImage("b.png");
  WriteImage("sub/a.png");
  Write("metadata.jsonl",
        "{\"file_name\": \"b.png\", \"text\": \"one\", \"other\": 5}\r\n\n"
        "{\"file_name\": \"sub/a.png\", \"caption\": \"two\"}");
  const auto dataset = FolderDataset::Open(folder_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->caption(0), "one");
  EXPECT_EQ(dataset->caption(1), "two");
  EXPECT_EQ(dataset->image_path(1), folder_ + "/sub/a.png");
  EXPECT_EQ(dataset->LoadImage(1)->width, 4);
}

TEST_F(FolderDatasetTest, CaptionColumnMayBeNamed) {
  WriteImage("b.png");
  Write("metadata.jsonl", "{\"file_name\": \"b.png\", \"text\": \"one\", \"fr\": \"un\"}");
  FolderDatasetOptions options;
  options.caption_column = "fr";
  EXPECT_EQ(FolderDataset::Open(folder_, options)->caption(0), "un");
  options.caption_column = "de";
  EXPECT_THAT(std::string(FolderDataset::Open(folder_, options).status().message()),
              HasSubstr("line 1: no string \"de\""));
}

TEST_F(FolderDatasetTest, ReadsSidecarsByName) {
  WriteImage("b.PNG");
  WriteImage("a.webp");
  Write("a.txt", "first\n");
  Write("b.txt", " second ");
  Write("notes.md", "not an image");
  const auto dataset = FolderDataset::Open(folder_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->caption(0), "first");
  EXPECT_EQ(dataset->caption(1), "second");
  WriteImage("c.jpg");
  EXPECT_THAT(OpenError(), HasSubstr("the caption of c.jpg cannot be read"));
}

TEST_F(FolderDatasetTest, CaptionsAreCleanedWhereverTheyStand) {
  WriteImage("a.png");
  WriteImage("b.png");
  Write("a.txt", "\xef\xbb\xbf a cat\r\n");
  Write("b.txt", "caf\xe9");
  {
    const auto sidecars = FolderDataset::Open(folder_);
    ASSERT_TRUE(sidecars.ok()) << sidecars.status();
    EXPECT_EQ(sidecars->caption(0), "a cat");
    EXPECT_EQ(sidecars->caption(1), "caf\ufffd");
  }
  Write("metadata.jsonl",
        "\xef\xbb\xbf{\"file_name\": \"a.png\", \"text\": \"\\ufeffa cat \"}\r\n");
  const auto metadata = FolderDataset::Open(folder_);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->caption(0), "a cat");
}

TEST_F(FolderDatasetTest, ReadsConditions) {
  WriteImage("a.png");
  WriteImage("b.png");
  Write("a.txt", "x");
  Write("b.txt", "y");
  Write("b.cond.png", EncodePng(Image(2, 3)).value());
  {
    const auto sidecars = FolderDataset::Open(folder_);
    ASSERT_TRUE(sidecars.ok()) << sidecars.status();
    ASSERT_EQ(sidecars->size(), 2);
    EXPECT_FALSE(sidecars->has_condition(0));
    EXPECT_EQ(sidecars->LoadCondition(0).status().code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(sidecars->LoadCondition(1)->height, 3);
  }
  Write("metadata.jsonl",
        "{\"file_name\": \"a.png\", \"text\": \"x\", \"conditioning_image\": \"b.cond.png\"}\n"
        "{\"file_name\": \"b.png\", \"text\": \"y\", \"conditioning_image\": null}");
  const auto metadata = FolderDataset::Open(folder_);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->LoadCondition(0)->height, 3);
  EXPECT_FALSE(metadata->has_condition(1));
}

TEST_F(FolderDatasetTest, ErrorsNameFileAndLine) {
  EXPECT_EQ(FolderDataset::Open("/no/such").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(OpenError(), HasSubstr("neither metadata.jsonl nor any"));
  WriteImage("a.png");
  const std::string good = "{\"file_name\": \"a.png\", \"text\": \"x\"}\n";
  const std::pair<const char*, const char*> cases[] = {
      {"{\"file_name\": \"gone.png\", \"text\": \"x\"}", "no such image: gone.png"},
      {"{\"file_name\": \"a.png\"}", "no string \"text\""},
      {"{\"file_name\": 5, \"text\": \"x\"}", "no string \"file_name\""},
      {"{\"file_name\": \"a.png\", \"text\": null}", "no string \"text\""},
      {"{\"file_name\": \"../a.png\", \"text\": \"x\"}", "not a path below the folder"},
      {"{\"file_name\": \"/etc/passwd\", \"text\": \"x\"}", "not a path below the folder"},
      {"{\"file_name\": \"\", \"text\": \"x\"}", "not a path below the folder"},
      {"{\"file_name\": \"a.png\", \"te", "not a JSON object"},
      {"{\"file_name\": \"a.png\", \"text\": \"x\", \"conditioning_image\": 5}", "is no string"},
      {"{\"file_name\": \"a.png\", \"text\": \"x\", \"conditioning_image\": \"../a.png\"}",
       "conditioning_image \"../a.png\" is not a path below the folder"},
      {"{\"file_name\": \"a.png\", \"text\": \"caf\xe9\"}", "not UTF-8: byte 36 is 0xe9"},
      {"[]", "not a JSON object"}};
  for (const auto& [line, expected] : cases) {
    Write("metadata.jsonl", good + line);
    EXPECT_THAT(OpenError(), HasSubstr("/metadata.jsonl line 2: ")) << line;
    EXPECT_THAT(OpenError(), HasSubstr(expected)) << line;
  }
  Write("metadata.jsonl", "\n\n");
  EXPECT_THAT(OpenError(), HasSubstr("no samples"));
}

TEST_F(FolderDatasetTest, FlippedBytesOfMetadataDoNoHarm) {
  WriteImage("a.png");
  std::string good;
  for (int i = 0; i < 5; ++i)
    absl::StrAppend(&good, "{\"file_name\": \"a.png\", \"text\": \"x\"}\n");
  int num_errors = 0;
  for (int trial = 0; trial < 200; ++trial) {
    RandomStream random(3, trial, 0, RandomPurpose::kTest);
    std::string damaged = good;
    damaged[random.NextBelow(damaged.size())] ^= 1 << random.NextBelow(8);
    Write("metadata.jsonl", damaged);
    num_errors += !FolderDataset::Open(folder_).ok();
  }
  EXPECT_GT(num_errors, 50);
}

}  // namespace
}  // namespace dpipe
