#include "data/folders/folder_dataset.h"

#include <sys/stat.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "core/base/files/scratch_folder.h"
#include "core/base/philox.h"
#include "data/images/image_encode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

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
  EXPECT_EQ(dataset->LoadCaptions(0)->front(), "one");
  EXPECT_EQ(dataset->LoadCaptions(1)->front(), "two");
  EXPECT_EQ(dataset->image_path(1), folder_ + "/sub/a.png");
  EXPECT_EQ(dataset->LoadImage(1)->width, 4);
}

TEST_F(FolderDatasetTest, CaptionColumnMayBeNamed) {
  WriteImage("b.png");
  Write("metadata.jsonl", "{\"file_name\": \"b.png\", \"text\": \"one\", \"fr\": \"un\"}");
  FolderDatasetOptions options;
  options.caption_column = "fr";
  EXPECT_EQ(FolderDataset::Open(folder_, options)->LoadCaptions(0)->front(), "un");
  options.caption_column = "de";
  EXPECT_THAT(std::string(FolderDataset::Open(folder_, options).status().message()),
              HasSubstr("line 1: no column \"de\" (--data.caption_column); it has "
                        "\"file_name\", \"text\", \"fr\""));
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
  EXPECT_EQ(dataset->LoadCaptions(0)->front(), "first");
  EXPECT_EQ(dataset->LoadCaptions(1)->front(), "second");
  WriteImage("c.jpg");
  EXPECT_THAT(OpenError(), HasSubstr("1 of its 3 images have no caption: c.jpg (no c.txt). "));
}

TEST_F(FolderDatasetTest, CaptionsFromAllSourcesAreCleaned) {
  WriteImage("a.png");
  WriteImage("b.png");
  Write("a.txt", "\xef\xbb\xbf a cat\r\n");
  Write("b.txt", "caf\xe9");
  {
    const auto sidecars = FolderDataset::Open(folder_);
    ASSERT_TRUE(sidecars.ok()) << sidecars.status();
    EXPECT_EQ(sidecars->LoadCaptions(0)->front(), "a cat");
    EXPECT_EQ(sidecars->LoadCaptions(1)->front(), "caf\ufffd");
  }
  Write("metadata.jsonl",
        "\xef\xbb\xbf{\"file_name\": \"a.png\", \"text\": \"\\ufeffa cat \"}\r\n");
  const auto metadata = FolderDataset::Open(folder_);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->LoadCaptions(0)->front(), "a cat");
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
  EXPECT_THAT(OpenError(), HasSubstr("neither metadata.jsonl nor metadata.csv nor any"));
  WriteImage("a.png");
  const std::string good = "{\"file_name\": \"a.png\", \"text\": \"x\"}\n";
  const std::pair<const char*, const char*> cases[] = {
      {"{\"file_name\": \"a.png\", \"prompt\": \"x\"}",
       "no column \"text\" or \"caption\": give the column of captions as "
       "--data.caption_column; it has \"file_name\", \"prompt\""},
      {"{}",
       "no column \"file_name\": give the column of file names as --data.file_column; it has "
       "no "
       "columns"},
      {"{\"file_name\": 5, \"text\": \"x\"}", "\"file_name\" is 5, not a string"},
      {"{\"file_name\": \"a.png\", \"text\": 5}",
       "\"text\" is 5, not a string or a list of strings"},
      {"{\"file_name\": \"a.png\", \"text\": null}",
       "\"text\" has no caption (--data.default_caption=TEXT gives such pictures a caption; "
       "--data.optional_captions"},
      {"{\"file_name\": \"../a.png\", \"text\": \"x\"}", "not a path below the folder"},
      {"{\"file_name\": \"/etc/passwd\", \"text\": \"x\"}", "not a path below the folder"},
      {"{\"file_name\": \"\", \"text\": \"x\"}", "not a path below the folder"},
      {"{\"file_name\": \"a.png\", \"te",
       "line 2: column 27: syntax error while parsing object key"},
      {"{\"file_name\": \"a.png\", \"text\": \"x\", \"conditioning_image\": 5}",
       "\"conditioning_image\" is 5, not a string"},
      {"{\"file_name\": \"a.png\", \"text\": \"x\", \"conditioning_image\": \"../a.png\"}",
       "conditioning_image \"../a.png\" is not a path below the folder"},
      {"{\"file_name\": \"a.png\", \"text\": \"caf\xe9\"}", "not UTF-8: byte 36 is 0xe9"},
      {"null", "expected a JSON object {...}, found null"},
      {"[5]", "expected a JSON object {...}, found [5]"}};
  for (const auto& [line, expected] : cases) {
    Write("metadata.jsonl", good + line);
    EXPECT_THAT(OpenError(), HasSubstr("/metadata.jsonl line 2: ")) << line;
    EXPECT_THAT(OpenError(), HasSubstr(expected)) << line;
  }
  Write("metadata.jsonl", "\n\n");
  EXPECT_THAT(OpenError(), HasSubstr("no samples"));
}

TEST_F(FolderDatasetTest, TheFirstFiveBadRowsAreNamed) {
  WriteImage("a.png");
  std::string lines;
  for (int i = 1; i <= 9; ++i) {
    absl::StrAppend(&lines, i == 2 ? "{\"file_name\": \"a.png\", \"text\": \"x\"}\n" : "5\n");
  }
  Write("metadata.jsonl", lines);
  const std::string error = OpenError(), path = folder_ + "/metadata.jsonl";
  for (const int line : {1, 3, 4, 5, 6}) {
    EXPECT_THAT(error, HasSubstr(absl::StrCat(path, " line ", line,
                                              ": expected a JSON object {...}, found 5\n")));
  }
  EXPECT_THAT(error, Not(HasSubstr("line 7")));
  EXPECT_THAT(error, HasSubstr(path + ": 8 of its 9 rows cannot be used"));
}

TEST_F(FolderDatasetTest, ReadsCsv) {
  ASSERT_TRUE(MakeFolder(folder_ + "/sub").ok());
  WriteImage("b.png");
  WriteImage("sub/a.png");
  WriteImage("c.png");
  Write("metadata.csv",
        "\xef\xbb\xbf"
        "file_name,size,text,conditioning_image\r\n"
        "b.png,5,\"one, \"\"two\"\"\",c.png\r\n\r\nsub/a.png,6,\" three\nfour \",\r\n");
  {
    const auto dataset = FolderDataset::Open(folder_);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    ASSERT_EQ(dataset->size(), 2);
    EXPECT_EQ(dataset->LoadCaptions(0)->front(), "one, \"two\"");
    EXPECT_EQ(dataset->LoadCaptions(1)->front(), "three\nfour");
    EXPECT_EQ(dataset->image_path(1), folder_ + "/sub/a.png");
    EXPECT_TRUE(dataset->has_condition(0));
    EXPECT_FALSE(dataset->has_condition(1));
  }
  Write("metadata.csv", "file_name,text\nb.png\nb.png,\nb.png,x\n");
  EXPECT_THAT(OpenError(), HasSubstr("/metadata.csv line 2: 1 cells, but the first line names 2"));
  EXPECT_THAT(OpenError(), HasSubstr("/metadata.csv line 3: \"text\" has no caption"));
  EXPECT_THAT(OpenError(), HasSubstr("2 of its 3 rows"));
  Write("metadata.csv", "file_name,text\nb.png,\"x\n");
  EXPECT_THAT(OpenError(), HasSubstr("/metadata.csv line 2: unterminated quoted cell"));
  Write("metadata.csv", "file_name,text\n");
  EXPECT_THAT(OpenError(), HasSubstr("/metadata.csv: no samples"));
  // Without this file, the other one would be read.
  Write("metadata.jsonl", "{\"file_name\": \"c.png\", \"text\": \"five\"}");
  EXPECT_EQ(FolderDataset::Open(folder_)->LoadCaptions(0)->front(), "five");
}

TEST_F(FolderDatasetTest, ReadsJsonWrittenByPython) {
  WriteImage("a.png");
  Write("metadata.jsonl", "{\"file_name\": \"a.png\", \"text\": \"x\", \"score\": NaN}");
  const auto dataset = FolderDataset::Open(folder_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->LoadCaptions(0)->front(), "x");
}

TEST_F(FolderDatasetTest, DeepJsonIsRefused) {
  WriteImage("a.png");
  Write("metadata.jsonl", "{\"file_name\": \"a.png\", \"text\": " + std::string(200'000, '['));
  EXPECT_THAT(OpenError(), HasSubstr("/metadata.jsonl line 1: column "));
  EXPECT_THAT(OpenError(), HasSubstr("more than 100 nested lists and objects"));
}

TEST_F(FolderDatasetTest, ReadsAllCaptionsOfAList) {
  WriteImage("a.png");
  WriteImage("b.png");
  Write("metadata.jsonl",
        "{\"file_name\": \"a.png\", \"text\": [\"a cat\", \" one cat sits\"]}\n"
        "{\"file_name\": \"b.png\", \"text\": []}\n");
  EXPECT_THAT(OpenError(), HasSubstr("line 2: \"text\" has no caption"));
  FolderDatasetOptions options;
  options.default_caption = "none";
  const auto dataset = FolderDataset::Open(folder_, options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(*dataset->LoadCaptions(0), ElementsAre("a cat", "one cat sits"));
  EXPECT_THAT(*dataset->LoadCaptions(1), ElementsAre("none"));
  const std::string before = dataset->fingerprint();
  Write("metadata.jsonl",
        "{\"file_name\": \"a.png\", \"text\": [\"a cat\", \"one cat runs\"]}\n"
        "{\"file_name\": \"b.png\", \"text\": []}\n");
  EXPECT_NE(FolderDataset::Open(folder_, options)->fingerprint(), before);
}

TEST_F(FolderDatasetTest, TheFileColumnMayBeNamed) {
  WriteImage("a.png");
  Write("metadata.csv", "image,text\na.png,x\n");
  EXPECT_THAT(OpenError(), HasSubstr("no column \"file_name\": give the column of file names as "
                                     "--data.file_column; it has \"image\", \"text\""));
  FolderDatasetOptions options;
  options.file_column = "image";
  const auto dataset = FolderDataset::Open(folder_, options);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->image_path(0), folder_ + "/a.png");
}

TEST_F(FolderDatasetTest, BackslashesAreTriedAsSlashes) {
  ASSERT_TRUE(MakeFolder(folder_ + "/img").ok());
  WriteImage("img/a.png");
  WriteImage("b\\c.png");
  Write("metadata.jsonl",
        "{\"file_name\": \".\\\\img\\\\a.png\", \"text\": \"x\"}\n"
        "{\"file_name\": \"b\\\\c.png\", \"text\": \"y\"}\n");
  const auto dataset = FolderDataset::Open(folder_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_TRUE(dataset->LoadImage(0).ok());
  EXPECT_TRUE(dataset->LoadImage(1).ok());
  EXPECT_THAT(dataset->notes(), IsEmpty());
  for (const char* outside : {"..\\\\a.png", "\\\\a.png"}) {
    Write("metadata.jsonl", absl::StrCat("{\"file_name\": \"", outside, "\", \"text\": \"x\"}\n"));
    EXPECT_THAT(OpenError(), HasSubstr("is not a path below the folder")) << outside;
  }
}

TEST_F(FolderDatasetTest, MetadataOfSubFoldersNamesTheirFiles) {
  for (const char* split : {"train", "test"}) {
    ASSERT_TRUE(MakeFolder(absl::StrCat(folder_, "/", split)).ok());
    WriteImage(absl::StrCat(split, "/a.png"));
    WriteImage(absl::StrCat(split, "/b.png"));
    Write(absl::StrCat(split, "/metadata.jsonl"),
          "{\"file_name\": \"a.png\", \"text\": \"x\", \"conditioning_image\": \"b.png\"}");
  }
  const auto dataset = FolderDataset::Open(folder_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ(dataset->size(), 1);
  EXPECT_EQ(dataset->image_path(0), folder_ + "/train/a.png");
  EXPECT_TRUE(dataset->LoadCondition(0).ok());
  EXPECT_THAT(dataset->notes(),
              ElementsAre(HasSubstr("test/metadata.jsonl belongs to another split")));
}

TEST_F(FolderDatasetTest, ImagesMissingFromMetadataAreNamed) {
  for (const char* name : {"a", "b", "c", "d"}) WriteImage(absl::StrCat(name, ".png"));
  Write("metadata.jsonl",
        "{\"file_name\": \"./a.png\", \"text\": \"x\", \"conditioning_image\": \"d.png\"}");
  Write("a.txt", "ignored");
  EXPECT_THAT(FolderDataset::Open(folder_)->notes(),
              ElementsAre("2 images are not in metadata.jsonl: b.png, c.png"));
}

TEST_F(FolderDatasetTest, OnlyRegularFilesAreOpened) {
  WriteImage("a.png");
  ASSERT_EQ(mkfifo((folder_ + "/pipe.png").c_str(), 0600), 0);
  Write("metadata.jsonl",
        "{\"file_name\": \"a.png\", \"text\": \"x\"}\n"
        "{\"file_name\": \"pipe.png\", \"text\": \"y\"}\n");
  const auto dataset = FolderDataset::Open(folder_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(std::string(dataset->LoadImage(1).status().message()),
              HasSubstr("/pipe.png is a named pipe, not a regular file"));
  EXPECT_FALSE(dataset->LoadImageSize(1).ok());
  EXPECT_THAT(dataset->notes(), Contains("ignored, not regular files: pipe.png"));
  EXPECT_THAT(std::string(FolderDataset::Open(folder_ + "/pipe.png").status().message()),
              HasSubstr("/pipe.png: neither a folder nor a regular file"));
  EXPECT_THAT(std::string(FolderDataset::Open(folder_ + "/a.png").status().message()),
              HasSubstr("/a.png: not a folder"));
}

TEST_F(FolderDatasetTest, TransparencyIsCountedAsImagesAreLoaded) {
  ASSERT_TRUE(CopyFileAtomically("data/testdata/alpha.png", folder_ + "/a.png").ok());
  WriteImage("b.png");
  Write("a.txt", "x");
  Write("b.txt", "y");
  const auto dataset = FolderDataset::Open(folder_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(dataset->findings(), IsEmpty());
  for (const int index : {0, 1, 0}) EXPECT_TRUE(dataset->LoadImage(index).ok());
  EXPECT_THAT(dataset->findings(),
              ElementsAre("1 image has transparent pixels, composited on white: a.png"));
}

TEST_F(FolderDatasetTest, CellsThatAreNotUtf8AreCounted) {
  WriteImage("a.png");
  Write("metadata.csv", "file_name,text\na.png,caf\xe9\n");
  const auto dataset = FolderDataset::Open(folder_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->LoadCaptions(0)->front(), "caf\ufffd");
  EXPECT_THAT(dataset->notes(), ElementsAre(HasSubstr("1 caption is not UTF-8")));
  // PowerShell writes UTF-16.
  std::string utf16 = "\xff\xfe";
  for (const char c : std::string("file_name,text\r\na.png,red\r\n")) utf16 += {c, '\0'};
  Write("metadata.csv", utf16);
  EXPECT_EQ(FolderDataset::Open(folder_)->LoadCaptions(0)->front(), "red");
}

TEST_F(FolderDatasetTest, MissingImagesAreSamplesThatCannotBeLoaded) {
  WriteImage("a.png");
  Write("metadata.jsonl",
        "{\"file_name\": \"gone.png\", \"text\": \"x\"}\n"
        "{\"file_name\": \"a.png\", \"text\": \"y\"}\n");
  const auto dataset = FolderDataset::Open(folder_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->LoadImage(0).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(dataset->LoadImageSize(0).ok());
  EXPECT_TRUE(dataset->LoadImage(1).ok());
  EXPECT_THAT(dataset->notes(),
              ElementsAre("1 of the 2 images are missing and will be skipped; the first is " +
                          folder_ + "/gone.png"));
  Write("metadata.jsonl", "{\"file_name\": \"gone.png\", \"text\": \"x\"}\n");
  EXPECT_THAT(OpenError(),
              HasSubstr("none of the 1 images named in " + folder_ +
                        "/metadata.jsonl exists; the first is " + folder_ + "/gone.png"));
}

TEST_F(FolderDatasetTest, CaptionsMayBeOptional) {
  WriteImage("a.png");
  WriteImage("b.png");
  Write("a.txt", "one");
  FolderDatasetOptions options;
  options.default_caption = "photo of sks dog";
  const auto expect_default = [&] {
    const auto dataset = FolderDataset::Open(folder_, options);
    ASSERT_TRUE(dataset.ok()) << dataset.status();
    EXPECT_EQ(dataset->LoadCaptions(0)->front(), "one");
    EXPECT_EQ(dataset->LoadCaptions(1)->front(), *options.default_caption);
    EXPECT_THAT(dataset->notes(), Contains("1 of the 2 images have no caption and get \"" +
                                           *options.default_caption + "\""));
  };
  expect_default();
  options.default_caption = "";
  expect_default();
  for (const char* second : {"", ", \"text\": null"}) {
    Write("metadata.jsonl", absl::StrCat("{\"file_name\": \"a.png\", \"text\": \"one\"}\n",
                                         "{\"file_name\": \"b.png\"", second, "}"));
    expect_default();
  }
}

TEST_F(FolderDatasetTest, FingerprintCoversNamesSizesAndCaptions) {
  const ScratchFolder elsewhere;
  const auto fingerprint = [](const std::string& folder) {
    return FolderDataset::Open(folder)->fingerprint();
  };
  for (const std::string& folder : {folder_, elsewhere.path()}) {
    for (const char* name : {"/a", "/b"}) {
      ASSERT_TRUE(WriteFileAtomically(folder + name + ".png", EncodePng(Image(4, 4)).value()).ok());
      ASSERT_TRUE(WriteFileAtomically(folder + name + ".txt", "x").ok());
    }
  }
  const std::string before = fingerprint(folder_);
  EXPECT_EQ(fingerprint(elsewhere.path()), before);
  WriteImage("a.png");  // changes only its time
  EXPECT_EQ(fingerprint(folder_), before);
  std::set<std::string> all = {before};
  Write("b.txt", "y");
  all.insert(fingerprint(folder_));
  Write("b.png", EncodePng(Image(40, 40)).value());
  all.insert(fingerprint(folder_));
  ASSERT_EQ(rename((folder_ + "/b.png").c_str(), (folder_ + "/c.png").c_str()), 0);
  ASSERT_EQ(rename((folder_ + "/b.txt").c_str(), (folder_ + "/c.txt").c_str()), 0);
  all.insert(fingerprint(folder_));
  Write("a.cond.png", EncodePng(Image(4, 4)).value());
  all.insert(fingerprint(folder_));
  EXPECT_EQ(all.size(), 5u);
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
