#include "data/folder_dataset.h"

#include <sys/stat.h>

#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "data/caption_text.h"
#include "data/file_part.h"
#include "data/fingerprint.h"
#include "data/metadata_rows.h"
#include "data/sidecar_files.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMetadataFiles[] = {"metadata.jsonl", "metadata.csv"};
constexpr const char* kFileColumn = "file_name";
constexpr const char* kConditionColumn = "conditioning_image";
constexpr size_t kMaxSamples = std::numeric_limits<int32_t>::max();

// In bytes; -1 where there is no such file.
int64_t FileSize(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? int64_t{info.st_size} : -1;
}

// Whether a relative path stays below the folder it is relative to.
bool StaysInside(const std::string& file_name) {
  if (file_name.empty() || file_name[0] == '/' || file_name.find('\0') != std::string::npos) {
    return false;
  }
  for (const absl::string_view part : absl::StrSplit(file_name, '/')) {
    if (part == "..") return false;
  }
  return true;
}

absl::Status NoColumn(const std::string& wanted, const Json& row) {
  return absl::InvalidArgumentError(
      absl::StrCat("no column ", wanted, "; the row has ", ColumnsText(row)));
}

absl::Status NotAString(const char* column, const Json& value) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", column, "\" is ", value.dump().substr(0, 40), ", not a string"));
}

// A column that names a file below the folder.
absl::StatusOr<std::string> FileIn(const Json& row, const char* column) {
  const Json& value = row[column];
  if (!value.is_string()) return NotAString(column, value);
  std::string file_name = value.get<std::string>();
  if (StaysInside(file_name)) return file_name;
  return absl::InvalidArgumentError(
      absl::StrCat(column, " \"", file_name, "\" is not a path below the folder"));
}

}  // namespace

absl::StatusOr<FolderDataset> FolderDataset::Open(const std::string& folder,
                                                  const FolderDatasetOptions& options) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat("data set ", folder, ": no such folder"));
  }
  FolderDataset dataset(folder, options);
  std::string metadata;
  for (const char* file : kMetadataFiles) {
    if (metadata.empty() && FileSize(dataset.PathOf(file)) >= 0) metadata = dataset.PathOf(file);
  }
  DPIPE_RETURN_IF_ERROR(metadata.empty() ? dataset.ReadSidecars() : dataset.ReadMetadata(metadata));
  if (dataset.samples_.size() > kMaxSamples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data set ", folder, ": ", dataset.samples_.size(), " samples, more than ", kMaxSamples));
  }
  DPIPE_RETURN_IF_ERROR(dataset.LookForFiles(metadata.empty() ? folder : metadata));
  return dataset;
}

absl::Status FolderDataset::ReadMetadata(const std::string& path) {
  return ReadMetadataRows(path, [this](const absl::StatusOr<Json>& row) {
    DPIPE_RETURN_IF_ERROR(row.status());
    DPIPE_ASSIGN_OR_RETURN(Sample sample, ParseRow(*row));
    samples_.push_back(std::move(sample));
    return absl::OkStatus();
  });
}

absl::StatusOr<FolderDataset::Sample> FolderDataset::ParseRow(const Json& row) {
  if (!row.contains(kFileColumn)) return NoColumn(absl::StrCat("\"", kFileColumn, "\""), row);
  Sample sample;
  DPIPE_ASSIGN_OR_RETURN(sample.file_name, FileIn(row, kFileColumn));
  DPIPE_ASSIGN_OR_RETURN(sample.caption, CaptionOf(row));
  if (!row.contains(kConditionColumn) || row[kConditionColumn].is_null()) return sample;
  DPIPE_ASSIGN_OR_RETURN(sample.condition, FileIn(row, kConditionColumn));
  return sample;
}

absl::StatusOr<std::string> FolderDataset::CaptionOf(const Json& row) {
  const std::string& named = options_.caption_column;
  const bool has_other_name = !row.contains("text") && row.contains("caption");
  const std::string column = !named.empty() ? named : has_other_name ? "caption" : "text";
  const bool is_there = row.contains(column);
  if (is_there && row[column].is_string()) return CaptionText(row[column].get<std::string>());
  if (is_there && !row[column].is_null()) return NotAString(column.c_str(), row[column]);
  if (options_.default_caption.has_value()) {
    ++num_without_caption_;
    return *options_.default_caption;
  }
  if (is_there) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", column, "\" has no caption (", kWithoutCaptions, ")"));
  }
  return NoColumn(
      named.empty()
          ? "\"text\" or \"caption\": name the one that has captions with --data.caption_column"
          : absl::StrCat("\"", named, "\" (--data.caption_column)"),
      row);
}

absl::Status FolderDataset::ReadSidecars() {
  DPIPE_ASSIGN_OR_RETURN(SidecarFiles files, FindSidecarFiles(folder_, options_.default_caption));
  for (SidecarSample& found : files.samples) {
    num_without_caption_ += found.has_default_caption;
    samples_.push_back(
        {std::move(found.image), std::move(found.caption), std::move(found.condition)});
  }
  notes_ = std::move(files.notes);
  return absl::OkStatus();
}

absl::Status FolderDataset::LookForFiles(const std::string& list) {
  Fingerprint fingerprint;
  int64_t num_missing = 0;
  std::string first_missing;
  for (const Sample& sample : samples_) {
    const int64_t size = FileSize(PathOf(sample.file_name));
    if (size < 0 && num_missing++ == 0) first_missing = PathOf(sample.file_name);
    fingerprint.Add(sample.file_name).Add(sample.caption).Add(sample.condition).AddNumber(size);
  }
  fingerprint_ = fingerprint.ToString();
  if (num_missing == static_cast<int64_t>(samples_.size())) {
    return absl::NotFoundError(absl::StrCat("none of the ", num_missing, " images that ", list,
                                            " names is there, the first is ", first_missing));
  }
  if (num_missing > 0) {
    notes_.push_back(absl::StrCat(num_missing, " of the ", samples_.size(),
                                  " images are missing and will be skipped, the first is ",
                                  first_missing));
  }
  if (num_without_caption_ > 0) {
    notes_.push_back(absl::StrCat(num_without_caption_, " of the ", samples_.size(),
                                  " images have no caption and get \"", *options_.default_caption,
                                  "\""));
  }
  return absl::OkStatus();
}

std::string FolderDataset::PathOf(const std::string& file_name) const {
  return absl::StrCat(folder_, "/", file_name);
}

std::string FolderDataset::image_path(int32_t index) const {
  return PathOf(samples_[index].file_name);
}

absl::StatusOr<Image> FolderDataset::LoadImage(int32_t index) const {
  return ReadImage(image_path(index), options_.decode_limits);
}

absl::StatusOr<ImageSize> FolderDataset::LoadImageSize(int32_t index) const {
  const std::string path = image_path(index);
  DPIPE_ASSIGN_OR_RETURN(const FileIdentity identity, IdentifyFile(path));
  return ReadImageSize(path, 0, identity.size, path, options_.decode_limits);
}

absl::StatusOr<std::string> FolderDataset::LoadIdentity(int32_t index) const {
  const std::string path = image_path(index);
  DPIPE_ASSIGN_OR_RETURN(const FileIdentity identity, IdentifyFile(path));
  return absl::StrCat(path, " ", identity.size, " ", identity.changed_ns);
}

absl::StatusOr<Image> FolderDataset::LoadCondition(int32_t index) const {
  if (!has_condition(index)) {
    return absl::NotFoundError(absl::StrCat(image_path(index), ": no condition picture"));
  }
  return ReadImage(PathOf(samples_[index].condition), options_.decode_limits);
}

}  // namespace dpipe
