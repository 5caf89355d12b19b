#include "data/folders/folder_dataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <unordered_set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/count.h"
#include "core/base/text/show.h"
#include "data/fingerprint.h"
#include "data/folders/metadata_rows.h"
#include "data/folders/sidecar_files.h"
#include "data/tars/file_part.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kConditionColumn = "conditioning_image";
constexpr size_t kMaxSamples = std::numeric_limits<int32_t>::max();

// Returns the size in bytes, or -1 if there is no such regular file.
int64_t FileSize(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) ? int64_t{info.st_size} : -1;
}

// True if a relative path stays below the folder it is relative to.
bool StaysInside(const std::string& file_name) {
  if (file_name.empty() || file_name[0] == '/' || file_name.find('\0') != std::string::npos) {
    return false;
  }
  for (const absl::string_view part : absl::StrSplit(file_name, '/')) {
    if (part == "..") return false;
  }
  return true;
}

// Returns "./cats//7.png" in the form that listings use.
std::string InListing(const std::string& file_name) {
  return std::filesystem::path(file_name).lexically_normal().string();
}

absl::Status CheckFolder(const std::string& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) {
    return absl::NotFoundError(absl::StrCat("data set ", folder, ": no such folder"));
  }
  if (S_ISDIR(info.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data set ", folder, ": ",
                   S_ISREG(info.st_mode) ? "not a folder" : "neither a folder nor a regular file"));
}

}  // namespace

FolderDataset::FolderDataset(std::string folder, const FolderDatasetOptions& options)
    : folder_(std::move(folder)),
      options_(options),
      caption_column_(options.caption_column, "text", "caption") {
  if (options_.file_column.empty()) options_.file_column = "file_name";
}

absl::StatusOr<FolderDataset> FolderDataset::Open(const std::string& folder,
                                                  const FolderDatasetOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckFolder(folder));
  DPIPE_ASSIGN_OR_RETURN(const FolderListing listing, ListFolder(folder));
  DPIPE_ASSIGN_OR_RETURN(const MetadataFiles metadata, FindMetadataFiles(folder, listing));
  FolderDataset dataset(folder, options);
  if (metadata.files.empty()) {
    DPIPE_RETURN_IF_ERROR(dataset.ReadSidecars(listing));
  } else {
    dataset.notes_ = metadata.notes;
    for (const std::string& file : metadata.files) {
      DPIPE_RETURN_IF_ERROR(dataset.ReadMetadata(file));
    }
    dataset.NoteOmitted(listing, metadata);
  }
  if (dataset.samples_.size() > kMaxSamples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data set ", folder, ": ", dataset.samples_.size(), " samples, more than ", kMaxSamples));
  }
  DPIPE_RETURN_IF_ERROR(
      dataset.CheckFiles(metadata.files.empty() ? folder : dataset.PathOf(metadata.files[0])));
  return dataset;
}

absl::Status FolderDataset::ReadMetadata(const std::string& file) {
  const std::string sub_folder(FolderOf(file));
  return ReadMetadataRows(PathOf(file), [&](const absl::StatusOr<Json>& row) {
    DPIPE_RETURN_IF_ERROR(row.status());
    DPIPE_ASSIGN_OR_RETURN(Sample sample, ParseRow(*row, sub_folder));
    samples_.push_back(std::move(sample));
    return absl::OkStatus();
  });
}

absl::StatusOr<std::string> FolderDataset::FileIn(const Json& row, const std::string& column,
                                                  const std::string& sub_folder) const {
  const Json& value = row[column];
  if (!value.is_string()) return WrongType(column, value, "a string");
  std::string file_name = value.get<std::string>();
  if (absl::StrContains(file_name, '\\') && FileSize(PathOf(sub_folder + file_name)) < 0) {
    std::replace(file_name.begin(), file_name.end(), '\\', '/');
  }
  if (StaysInside(file_name)) return sub_folder + file_name;
  return absl::InvalidArgumentError(
      absl::StrCat(column, " \"", ShowText(file_name), "\" is not a path below the folder"));
}

absl::StatusOr<FolderDataset::Sample> FolderDataset::ParseRow(const Json& row,
                                                              const std::string& sub_folder) {
  const std::string& file_column = options_.file_column;
  if (!row.contains(file_column)) {
    return NoColumn(
        absl::StrCat("\"", file_column, "\": give the column of file names as --data.file_column"),
        row);
  }
  Sample sample;
  DPIPE_ASSIGN_OR_RETURN(sample.file_name, FileIn(row, file_column, sub_folder));
  DPIPE_ASSIGN_OR_RETURN(Captions captions, caption_column_.Of(row));
  if (!captions.are_utf8) not_utf8_.Add(sample.file_name);
  if (captions.texts.empty()) {
    if (!options_.default_caption.has_value()) return caption_column_.Missing(row);
    ++num_without_caption_;
    captions.texts.push_back(*options_.default_caption);
  }
  sample.captions = std::move(captions.texts);
  if (!row.contains(kConditionColumn) || row[kConditionColumn].is_null()) return sample;
  DPIPE_ASSIGN_OR_RETURN(sample.condition, FileIn(row, kConditionColumn, sub_folder));
  return sample;
}

absl::Status FolderDataset::ReadSidecars(const FolderListing& listing) {
  DPIPE_ASSIGN_OR_RETURN(SidecarFiles files,
                         FindSidecarFiles(folder_, listing, options_.default_caption));
  for (SidecarSample& found : files.samples) {
    num_without_caption_ += found.has_default_caption;
    samples_.push_back(
        {std::move(found.image), {std::move(found.caption)}, std::move(found.condition)});
  }
  notes_ = std::move(files.notes);
  return absl::OkStatus();
}

void FolderDataset::NoteOmitted(const FolderListing& listing, const MetadataFiles& metadata) {
  std::unordered_set<std::string> used;
  for (const Sample& sample : samples_) {
    used.insert(InListing(sample.file_name));
    if (!sample.condition.empty()) used.insert(InListing(sample.condition));
  }
  CountedNames omitted;
  for (const std::string& file : listing.files) {
    const bool is_of_other_split =
        std::any_of(metadata.other_splits.begin(), metadata.other_splits.end(),
                    [&](const std::string& split) { return absl::StartsWith(file, split); });
    if (IsImageName(file) && used.count(file) == 0 && !is_of_other_split) omitted.Add(file);
  }
  if (omitted.count() > 0) {
    notes_.push_back(absl::StrCat(
        Count(omitted.count(), "image"), omitted.count() == 1 ? " is" : " are", " not in ",
        metadata.files[0], metadata.files.size() > 1 ? " etc." : "", ": ", omitted.ToString()));
  }
  if (!listing.special.empty()) {
    notes_.push_back(absl::StrCat("ignored, not regular files: ", ShowNames(listing.special)));
  }
}

absl::Status FolderDataset::CheckFiles(const std::string& list) {
  Fingerprint fingerprint;
  int64_t num_missing = 0;
  std::string first_missing;
  for (const Sample& sample : samples_) {
    const int64_t size = FileSize(PathOf(sample.file_name));
    if (size < 0 && num_missing++ == 0) first_missing = PathOf(sample.file_name);
    fingerprint.Add(sample.file_name);
    for (const std::string& caption : sample.captions) fingerprint.Add(caption);
    fingerprint.Add(sample.condition).AddNumber(size);
  }
  fingerprint_ = fingerprint.ToString();
  if (num_missing == static_cast<int64_t>(samples_.size())) {
    return absl::NotFoundError(absl::StrCat("none of the ", num_missing, " images named in ", list,
                                            " exists; the first is ", first_missing));
  }
  if (num_missing > 0) {
    notes_.push_back(absl::StrCat(num_missing, " of the ", samples_.size(),
                                  " images are missing and will be skipped; the first is ",
                                  first_missing));
  }
  if (num_without_caption_ > 0) {
    notes_.push_back(absl::StrCat(num_without_caption_, " of the ", samples_.size(),
                                  " images have no caption and get \"", *options_.default_caption,
                                  "\""));
  }
  if (not_utf8_.count() > 0) {
    notes_.push_back(DescribeFinding(SampleFinding::kNotUtf8, not_utf8_));
  }
  return absl::OkStatus();
}

std::vector<std::string> FolderDataset::findings() const {
  return findings_->Describe([this](int32_t index) { return samples_[index].file_name; });
}

std::string FolderDataset::PathOf(const std::string& file_name) const {
  return absl::StrCat(folder_, "/", file_name);
}

std::string FolderDataset::image_path(int32_t index) const {
  return PathOf(samples_[index].file_name);
}

absl::StatusOr<Image> FolderDataset::LoadImage(int32_t index) const {
  DPIPE_ASSIGN_OR_RETURN(Image image, ReadImage(image_path(index), options_.decode_limits));
  if (image.had_transparency) findings_->Add(SampleFinding::kTransparent, index);
  return image;
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
