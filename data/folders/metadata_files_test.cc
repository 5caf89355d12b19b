#include "data/folders/metadata_files.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<MetadataFiles> Find(std::vector<std::string> files) {
  std::sort(files.begin(), files.end());
  FolderListing listing;
  listing.files = std::move(files);
  return FindMetadataFiles("/data", listing);
}

TEST(MetadataFilesTest, TopFolderComesFirst) {
  EXPECT_THAT(Find({"metadata.csv", "metadata.jsonl", "train/metadata.jsonl"})->files,
              ElementsAre("metadata.jsonl"));
  EXPECT_THAT(Find({"metadata.csv", "train/metadata.jsonl"})->files, ElementsAre("metadata.csv"));
  EXPECT_THAT(Find({"a.png", "my_metadata.jsonl", "a/metadata.json"})->files, IsEmpty());
  EXPECT_THAT(Find({})->files, IsEmpty());
}

TEST(MetadataFilesTest, SubFoldersMayHaveMetadata) {
  EXPECT_THAT(Find({"cats/metadata.csv", "cats/metadata.jsonl", "dogs/big/metadata.csv"})->files,
              ElementsAre("cats/metadata.jsonl", "dogs/big/metadata.csv"));
  EXPECT_THAT(Find({"test/metadata.jsonl"})->files, ElementsAre("test/metadata.jsonl"));
}

TEST(MetadataFilesTest, OtherSplitsAreNotTrainedOn) {
  const auto found = Find({"Train/metadata.jsonl", "cats/metadata.jsonl", "test/metadata.jsonl",
                           "validation/0/metadata.csv", "tests/metadata.csv"});
  EXPECT_THAT(found->files,
              ElementsAre("Train/metadata.jsonl", "cats/metadata.jsonl", "tests/metadata.csv"));
  EXPECT_THAT(found->other_splits, ElementsAre("test/", "validation/0/"));
  EXPECT_THAT(
      found->notes,
      ElementsAre("test/metadata.jsonl belongs to another split and is not used for training (for "
                  "evaluation: --evaluation.data=/data/test)",
                  HasSubstr("--evaluation.data=/data/validation/0)")));
}

TEST(MetadataFilesTest, ParquetErrorExplainsTheConversion) {
  const auto expect_error = [](const std::vector<std::string>& files, const std::string& path) {
    const absl::Status status = Find(files).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()),
                testing::StartsWith(path + ": Parquet tables are not read; write the table as "
                                           "metadata.jsonl (pandas: read_parquet(FILE)"));
    EXPECT_LE(status.message().size(), 300u);
  };
  expect_error({"a.png", "metadata.parquet"}, "/data/metadata.parquet");
  expect_error({"train/a.png", "train/metadata.parquet"}, "/data/train/metadata.parquet");
  expect_error({"README.md", "data/train-00000-of-00001.parquet"},
               "/data/data/train-00000-of-00001.parquet");
  EXPECT_TRUE(Find({"a.png", "a.txt", "other.parquet"}).ok());
  EXPECT_TRUE(Find({"metadata.jsonl", "metadata.parquet"}).ok());
}

}  // namespace
}  // namespace dpipe
